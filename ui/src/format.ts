/** Formats numbers and times for display. */

import type { Limits } from "./model";

export function cores(milli: number): string {
  return String(Math.round(milli / 10) / 100);
}

export function gib(mib: number): string {
  return mib >= 1024 ? `${Math.round((mib / 1024) * 10) / 10} GiB` : `${mib} MiB`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Formats milliseconds as 13:05:07.250. */
export function clockTime(at: number): string {
  return new Date(at).toISOString().slice(11, 23);
}

/** Formats a time that may be on another day as 2026-05-04 13:05:07. */
export function dateTime(at: number): string {
  return new Date(at).toISOString().slice(0, 19).replace("T", " ");
}

/** Formats a duration in milliseconds: "850 ms", "12.4 s", "3 min 20 s", "2 h 5 min". */
export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const tenths = Math.round(milliseconds / 100) / 10;
  if (tenths < 60) return `${tenths} s`;
  // Round first: 179.6 s are 3 min 0 s, not 2 min 60 s.
  const seconds = Math.round(milliseconds / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Formats a duration in microseconds, for single attempts. */
export function micro(microseconds: number): string {
  return microseconds < 1000 ? `${microseconds} µs` : duration(microseconds / 1000);
}

/** Splits an event's label: "NodeUpdateNodeTaint" reads "node update: node taint". */
export function eventWords(label: string): string {
  const words = label.replace(/([a-z])([A-Z])/g, "$1 $2").split(" ");
  return words.map((word, place) => (place ? word.toLowerCase() : word)).join(" ");
}

/** Describes which kinds may not be read, and the consequences. */
export function limitsInWords({ unknown, partial, namespace }: Limits): string {
  const parts: string[] = [];
  if (unknown.length) parts.push(`Not read: ${unknown.join(", ")}. Rules about them are left out.`);
  if (partial.length)
    parts.push(
      `Of ${partial.join(", ")} you may read those of namespace ${namespace} only: nodes may be fuller than they look.`,
    );
  return parts.join(" ");
}
