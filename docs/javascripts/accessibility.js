// The theme wraps each table in an element that scrolls. Keyboards reach it only if it can have the focus.
new MutationObserver(() => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    wrap.tabIndex = 0;
    wrap.setAttribute("role", "region");
    wrap.setAttribute("aria-label", "Table");
  }
}).observe(document.body, { childList: true, subtree: true });

// On a page that is not found the theme leaves the dialog of the search without a name.
document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
