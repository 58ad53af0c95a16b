/** Where the page is, as part of its address, so that every view can be shared as a link. */

export interface Route {
  view: string;
  rest: string;
  query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const [path = "", query = ""] = text.split("?", 2);
  const [view = "", ...rest] = path.split("/");
  return {
    view: view || "cluster",
    rest: rest.map(decodeURIComponent).join("/"),
    query: new URLSearchParams(query),
  };
}

export function href(view: string, rest = "", query: Record<string, string> = {}): string {
  const path = rest ? `${view}/${rest.split("/").map(encodeURIComponent).join("/")}` : view;
  const shown = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const text = shown.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}
