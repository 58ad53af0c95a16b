/** The route in the address of the page, so that every view can be shared as a link. */

export interface Route {
  view: string;
  rest: string;
  query: URLSearchParams;
}

/** The selected moment and run. Every link and every request contains them. */
export const moment = { at: "", run: "" };

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const [path = "", query = ""] = text.split("?", 2);
  const [view = "", ...rest] = path.split("/");
  return {
    view: view || "cluster",
    rest: rest.map(decoded).join("/"),
    query: new URLSearchParams(query),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(view: string, rest = "", query: Record<string, string> = {}): string {
  const path = rest ? `${view}/${encodePath(rest)}` : view;
  const all = { ...query, at: moment.at, run: moment.run };
  const shown = new URLSearchParams(Object.entries(all).filter(([, value]) => value));
  const text = shown.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** Encodes a name with slashes for a path. */
export function encodePath(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

export const nodeHref = (name: string) => href("cluster", "", { node: name });
export const podHref = (key: string) => href("pod", key);
export const groupHref = (key: string) => href("group", key);

/** Goes to an address without a new entry in the history, as for each letter of a text. */
export function replaceRoute(address: string): void {
  history.replaceState(null, "", address);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
