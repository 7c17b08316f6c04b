// Formulas (KaTeX, beside this file) and pictures that enlarge on a click. No network, also from file://.
(function () {
  "use strict";

  // Arithmatex leaves every formula as text between \( \) or \[ \], in an element of its own.
  function typeset(root) {
    root.querySelectorAll(".arithmatex:not([data-done])").forEach(function (element) {
      const text = element.textContent.trim();
      const display = text.startsWith("\\[") || text.startsWith("\\begin");
      const formula = text.startsWith("\\begin") ? text : text.slice(2, -2);
      element.dataset.done = "";
      katex.render(formula, element, { displayMode: display, throwOnError: false });
    });
  }

  function enlarge(image) {
    const box = document.createElement("dialog");
    const copy = document.createElement("img");
    box.className = "enlarged";
    copy.src = image.src;
    copy.alt = image.alt;
    box.append(copy);
    document.body.append(box);
    box.addEventListener("click", () => box.close());
    box.addEventListener("close", () => box.remove());
    box.showModal();
  }

  // Without this script a picture is what it is; with it a click or the enter key shows it at full size.
  function openable(root) {
    root.querySelectorAll("article img:not([data-openable])").forEach(function (image) {
      if (image.closest("a")) return;
      image.dataset.openable = "";
      image.tabIndex = 0;
      image.setAttribute("role", "button");
      image.title = "Click to enlarge";
      image.addEventListener("click", () => enlarge(image));
      image.addEventListener("keydown", (event) => event.key === "Enter" && enlarge(image));
    });
  }

  // Names of tests and functions in tables break after _ and . alone, identifiers such as AR-6 never.
  function breakable(root) {
    root.querySelectorAll("article td code:not([data-done])").forEach(function (code) {
      code.dataset.done = "";
      if (code.children.length) return;
      const parts = code.textContent.split(/(?<=[_./])/);
      code.replaceChildren(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
    });
    root.querySelectorAll("article td:first-child").forEach(function (cell) {
      if (/^[A-Z]{2}-[A-Z]?\d+[a-z]?$/.test(cell.textContent.trim())) cell.style.whiteSpace = "nowrap";
    });
  }

  function prepare() {
    breakable(document);
    typeset(document);
    openable(document);
  }

  if (window.document$) window.document$.subscribe(prepare); // also after an instant navigation
  else prepare();
})();
