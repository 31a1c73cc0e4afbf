"use strict";
(() => {
  const form = document.querySelector(".filters");
  const rows = [...document.querySelectorAll("li[data-tag]")];
  const owners = [...document.querySelectorAll(".owner")];
  const folds = [...document.querySelectorAll("details")];
  const search = form.elements.search;
  const buttons = [...form.querySelectorAll("[data-show]")];
  const line = (row) => row.querySelector(":scope > .line, :scope > details > summary");
  const texts = new Map(rows.map((row) => [row, line(row).textContent.toLowerCase()]));

  // Shows the rows that every filter permits, and the rows above them.
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tags = new Set(buttons.filter((button) => button.ariaPressed === "true").map((button) => button.dataset.show));
    const { kind, namespace } = form.elements;
    const matches = (row) => tags.has(row.dataset.tag)
      && (!kind.value || row.dataset.kind === kind.value)
      && (!namespace.value || row.dataset.namespace === namespace.value)
      && words.every((word) => texts.get(row).includes(word));
    const found = new Set(rows.filter(matches));
    // Rows below stand after their row in the document.
    const shown = new Set();
    for (const row of [...rows].reverse()) {
      if (found.has(row) || shown.has(row)) {
        shown.add(row);
        const above = row.parentElement.closest("li[data-tag]");
        if (above) shown.add(above);
      }
    }
    for (const row of rows) {
      row.classList.toggle("filtered", !shown.has(row));
      row.classList.toggle("context", shown.has(row) && !found.has(row));
    }
    const isFiltered = found.size < rows.length;
    for (const owner of owners) {
      owner.classList.toggle("filtered", isFiltered && !owner.querySelector("li[data-tag]:not(.filtered)"));
    }
    form.elements.shown.value = `${found.size} of ${rows.length} rows`;
  };

  const open = (isOpen) => folds.forEach((fold) => { fold.open = isOpen; });
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.ariaPressed = button.ariaPressed === "true" ? "false" : "true";
      filter();
    });
  }
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
