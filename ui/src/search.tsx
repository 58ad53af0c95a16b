import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./api";
import { nodeHref, podHref } from "./route";
import type { SearchHit } from "./wire";

const address = (each: SearchHit) => (each.kind === "pod" ? podHref(each.name) : nodeHref(each.name));

/** Searches nodes and pods by a part of their name. "/" focuses the field, arrow keys select. */
export function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<SearchHit[] | null>(null);
  const [chosen, setChosen] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "/" && !["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)) {
        event.preventDefault();
        input.current?.focus();
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  useEffect(() => {
    if (!text) {
      setFound(null);
      return;
    }
    let isCurrent = true;
    const timer = setTimeout(() => {
      ask<SearchHit[]>(`search?text=${encodeURIComponent(text)}`).then(
        (answer) => {
          if (!isCurrent) return;
          setFound(answer);
          setChosen(0);
        },
        () => isCurrent && setFound([]),
      );
    }, 120);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [text]);
  const close = () => setText("");
  const pressed = (event: KeyboardEvent) => {
    const count = found?.length ?? 0;
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" && count) setChosen((chosen + 1) % count);
    else if (event.key === "ArrowUp" && count) setChosen((chosen + count - 1) % count);
    else if (event.key === "Enter" && found?.[chosen]) {
      location.hash = address(found[chosen]);
      close();
      input.current?.blur();
    } else return;
    event.preventDefault();
  };
  return (
    <div class="search" role="search">
      <input
        ref={input}
        id="search"
        type="search"
        role="combobox"
        placeholder="Find a node or pod  /"
        aria-label="Find a node or pod"
        aria-expanded={found !== null}
        aria-controls="found"
        aria-activedescendant={found?.length ? `found-${chosen}` : undefined}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={pressed}
      />
      <div id="found" role="listbox" aria-label="Found" class={found ? "found" : "found none"}>
        {found?.length === 0 && <p class="dim">Nothing with that name.</p>}
        {found?.map((each, place) => (
          <a
            key={`${each.kind}/${each.name}`}
            id={`found-${place}`}
            role="option"
            aria-selected={place === chosen}
            href={address(each)}
            onClick={close}
          >
            <span class="kind">{each.kind}</span> {each.name}
          </a>
        ))}
      </div>
    </div>
  );
}
