/** Where the page is, as part of its address, so that every view can be shared as a link. */

export interface Route {
  view: string;
  rest: string;
  query: URLSearchParams;
}

/** The moment and the run that are looked at; they go with every link and every question. */
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

/** A name with slashes as part of a path. */
export function encodePath(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

export const nodeHref = (name: string) => href("cluster", "", { node: name });
export const podHref = (key: string) => href("pod", key);
