import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "./api";

/** Whether the system prefers dark colours. */
export function useDark(): boolean {
  const query = useMemo(() => window.matchMedia("(prefers-color-scheme: dark)"), []);
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  return dark;
}

export interface Asked<T> {
  value: T | null;
  error: string;
}

/** Requests a path, and again when `when` changes. The old answer stays until the new one arrives. */
export function useAnswer<T>(path: string, when: unknown[] = []): Asked<T> {
  const [asked, setAsked] = useState<Asked<T> & { path: string }>({ value: null, error: "", path: "" });
  useEffect(() => {
    if (!path) return;
    let isCurrent = true;
    ask<T>(path).then(
      (value) => isCurrent && setAsked({ value, error: "", path }),
      (problem: Error) => isCurrent && setAsked((old) => ({ ...old, error: problem.message, path })),
    );
    return () => {
      isCurrent = false;
    };
  }, [path, ...when]);
  return asked.path === path ? asked : { value: null, error: "" };
}

/** Limits how often a value changes, since each change starts an expensive request. */
export function usePaced<T>(value: T, milliseconds: number): T {
  const [paced, setPaced] = useState({ value, at: 0 });
  useEffect(() => {
    if (Object.is(paced.value, value)) return;
    const wait = Math.max(0, paced.at + milliseconds - performance.now());
    const timer = setTimeout(() => setPaced({ value, at: performance.now() }), wait);
    return () => clearTimeout(timer);
  }, [value, paced]);
  return paced.value;
}
