import { useEffect, useState } from "preact/hooks";
import { ask } from "./api";
import { href } from "./route";

interface Found {
  kind: string;
  name: string;
}

/** Finds nodes and pods by part of their name; "/" moves the cursor here. */
export function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[]>([]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "/" && !["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)) {
        event.preventDefault();
        document.getElementById("search")?.focus();
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  useEffect(() => {
    if (!text) {
      setFound([]);
      return;
    }
    let isCurrent = true;
    const timer = setTimeout(() => {
      ask<Found[]>(`search?text=${encodeURIComponent(text)}`).then(
        (answer) => isCurrent && setFound(answer),
        () => isCurrent && setFound([]),
      );
    }, 120);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [text]);
  const close = () => setText("");
  return (
    <div class="search" role="search">
      <input
        id="search"
        type="search"
        placeholder="Find a node or pod ( / )"
        aria-label="Find a node or pod"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && close()}
      />
      {found.length > 0 && (
        <ul class="found">
          {found.map((each) => (
            <li key={`${each.kind}/${each.name}`}>
              <a
                href={each.kind === "pod" ? href("pod", each.name) : href("cluster", "", { node: each.name })}
                onClick={close}
              >
                <span class="kind">{each.kind}</span> {each.name}
              </a>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
