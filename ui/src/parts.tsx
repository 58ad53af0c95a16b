/** Components that several views share. */

import type { ComponentChildren } from "preact";
import { groupHref, nodeHref, podHref } from "./route";

export const NodeLink = ({ name }: { name: string }) => <a href={nodeHref(name)}>{name}</a>;
export const PodLink = ({ name }: { name: string }) => <a href={podHref(name)}>{name}</a>;
export const GroupLink = ({ name }: { name: string }) => <a href={groupHref(name)}>{name}</a>;

const WORDS: Record<string, string> = { unschedulable: "no node", gone: "deleted" };

export function Mark({ what }: { what: string }) {
  return <span class={`mark ${what.replace(/ /g, "-")}`}>{WORDS[what] ?? what}</span>;
}

const PLACES: Record<string, string> = {
  active: "ready",
  backoff: "backoff",
  "error backoff": "backoff",
  unschedulable: "waits",
  gated: "gated",
  "in flight": "being placed",
};

/** The name of a queue place on the page. */
export function PlaceMark({ place }: { place: string }) {
  return <span class={`mark place-${place.replace(/ /g, "-")}`}>{PLACES[place] ?? place}</span>;
}

/** The message of a failed attempt: its main reason, expandable to the whole message. */
export function Reason({ text }: { text: string }) {
  return (
    <span class="clamped" title={text}>
      {text}
    </span>
  );
}

export function Loading({ text }: { text: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {text}
    </p>
  );
}

export function Empty({
  title,
  isHeading,
  children,
}: {
  title: string;
  isHeading?: boolean;
  children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      {isHeading ? <h1 class="empty-title">{title}</h1> : <p class="empty-title">{title}</p>}
      {children && <p>{children}</p>}
    </div>
  );
}

/** A usage bar with a label. */
export function Meter(props: { name: string; share: number; text: string }) {
  const share = Math.max(0, Math.min(props.share, 1));
  const level = share >= 0.98 ? "full" : share >= 0.9 ? "high" : "";
  return (
    <div class="meter">
      <span class="meter-name">{props.name}</span>
      <svg class={`bar ${level}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="bar-back" width="100" height="8" />
        <rect class="bar-front" width={share * 100} height="8" />
      </svg>
      <span class="meter-text">{props.text}</span>
    </div>
  );
}

export function Tile(props: { value: string; label: string; tone?: string; href?: string }) {
  const inner = (
    <>
      <b>{props.value}</b> <span>{props.label}</span>
    </>
  );
  const look = `tile ${props.tone ?? ""}`;
  return props.href ? (
    <a class={look} href={props.href}>
      {inner}
    </a>
  ) : (
    <div class={look}>{inner}</div>
  );
}

/** A table that scrolls in its own area, also by keyboard. */
export function Table(props: { label: string; head: string[]; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.head.map((each) => (
              <th key={each} scope="col">
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}

export function Message({ text, bad }: { text: string; bad?: boolean }) {
  if (!text) return null;
  return (
    <p class={bad ? "message bad" : "message"} role={bad ? "alert" : "status"}>
      {text}
    </p>
  );
}
