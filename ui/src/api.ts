/** Talking to the server: one event stream, and questions. Everything is relative to the page. */

import type { Frame } from "./model";

export async function ask<T>(path: string): Promise<T> {
  return answer<T>(await fetch(`api/${path}`));
}

export async function tell<T>(path: string, body: unknown): Promise<T> {
  return answer<T>(
    await fetch(`api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

async function answer<T>(response: Response): Promise<T> {
  const text = await response.text();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || response.statusText);
  }
  if (!response.ok) throw new Error((value as { error?: string }).error ?? response.statusText);
  return value as T;
}

export function follow(onFrame: (frame: Frame) => void, onState: (connected: boolean) => void): void {
  const source = new EventSource("api/stream");
  source.onmessage = (event) => {
    onState(true);
    onFrame(JSON.parse(event.data as string) as Frame);
  };
  source.onerror = () => onState(false);
}
