/** Requests to the server, and its event stream. All addresses are relative to the page. */

import type { Frame, Outline } from "./model";
import { moment } from "./route";

export async function ask<T>(path: string): Promise<T> {
  const [plain = "", query = ""] = path.split("?", 2);
  const asked = new URLSearchParams(query);
  if (moment.at) asked.set("at", moment.at);
  if (moment.run) asked.set("run", moment.run);
  const text = asked.toString();
  return answer<T>(await fetch(`api/${plain}${text ? `?${text}` : ""}`));
}

export async function tell<T>(path: string, body: Record<string, unknown>): Promise<T> {
  const when = { ...(moment.at && { at: moment.at }), ...(moment.run && { run: moment.run }) };
  return answer<T>(
    await fetch(`api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...body, ...when }),
    }),
  );
}

export class AnswerError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

async function answer<T>(response: Response): Promise<T> {
  const text = await response.text();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new AnswerError(text.trim() || response.statusText, response.status);
  }
  if (!response.ok) {
    throw new AnswerError((value as { error?: string }).error ?? response.statusText, response.status);
  }
  return value as T;
}

/** The timelines of the page, or null if the cluster is live. */
export function outline(): Promise<Outline | null> {
  return fetch("api/outline").then((response) => answer<Outline | null>(response));
}

/** The frame of a moment of a run, or its differences from another moment. */
export async function momentFrame(run: string, at: number, since: number | null): Promise<Frame> {
  const asked = new URLSearchParams({ run, at: String(at) });
  if (since !== null) asked.set("since", String(since));
  return answer<Frame>(await fetch(`api/moment?${asked.toString()}`));
}

export function follow(onFrame: (frame: Frame) => void, onState: (connected: boolean) => void): () => void {
  const source = new EventSource("api/stream");
  source.onmessage = (event) => {
    onState(true);
    onFrame(JSON.parse(event.data as string) as Frame);
  };
  source.onerror = () => onState(false);
  return () => source.close();
}
