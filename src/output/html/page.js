"use strict";
(() => {
  const form = document.querySelector(".filters");
  const rows = [...document.querySelectorAll("li[data-tag]")];
  const owners = [...document.querySelectorAll(".owner")];
  const folds = [...document.querySelectorAll("details")];
  const search = form.elements.search;
  const buttons = [...form.querySelectorAll("[data-show]")];
  const toolbar = form.querySelector("[aria-expanded]");
  // What a filter needs of each row, read once: the page is not asked again while somebody types.
  const facts = rows.map((row) => {
    const line = row.querySelector(":scope > .line, :scope > details > summary");
    return { row, text: line.textContent.toLowerCase(), owner: row.closest(".owner"), shows: true, isContext: false };
  });
  const places = new Map(facts.map((fact, at) => [fact.row, at]));
  for (const fact of facts) fact.above = places.get(fact.row.parentElement.closest("li[data-tag]"));

  // Shows the rows that every filter permits, and the rows above them. Without a pressed tag, all tags are shown.
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tags = new Set(buttons.filter((button) => button.ariaPressed === "true").map((button) => button.dataset.show));
    const [kind, namespace] = [form.elements.kind.value, form.elements.namespace.value];
    const matches = ({ row, text }) => (!tags.size || tags.has(row.dataset.tag))
      && (!kind || row.dataset.kind === kind)
      && (!namespace || row.dataset.namespace === namespace)
      && words.every((word) => text.includes(word));
    const found = facts.map(matches);
    const shown = [...found];
    const filled = new Set();
    // Rows below stand after their row in the document.
    for (let at = facts.length - 1; at >= 0; at -= 1) {
      const { above, owner } = facts[at];
      if (!shown[at]) continue;
      filled.add(owner);
      if (above !== undefined) shown[above] = true;
    }
    // Only rows that change are touched.
    facts.forEach((fact, at) => {
      const isContext = shown[at] && !found[at];
      if (fact.shows !== shown[at]) fact.row.classList.toggle("filtered", !shown[at]);
      if (fact.isContext !== isContext) fact.row.classList.toggle("context", isContext);
      [fact.shows, fact.isContext] = [shown[at], isContext];
    });
    const number = found.filter(Boolean).length;
    for (const owner of owners) owner.classList.toggle("filtered", number < rows.length && !filled.has(owner));
    form.elements.shown.value = `${number} of ${rows.length} rows`;
  };

  const open = (isOpen) => folds.forEach((fold) => { fold.open = isOpen; });
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.ariaPressed = button.ariaPressed === "true" ? "false" : "true";
      filter();
    });
  }
  toolbar.addEventListener("click", () => {
    toolbar.ariaExpanded = toolbar.ariaExpanded === "true" ? "false" : "true";
  });
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("[data-fold=open]").addEventListener("click", () => open(true));
  form.querySelector("[data-fold=close]").addEventListener("click", () => open(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && event.target !== search) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      search.value = "";
      filter();
    }
  });
  // Everything is printed, and afterwards folded as before.
  let before = [];
  addEventListener("beforeprint", () => {
    before = folds.map((fold) => fold.open);
    open(true);
  });
  addEventListener("afterprint", () => folds.forEach((fold, at) => { fold.open = before[at]; }));

  form.hidden = false;
  filter();
})();
