"use strict";
// Sorts and filters tables; everything else works without this script.
for (const table of document.querySelectorAll("table[data-sort]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
      const numeric = [...body.rows].every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
      const sign = down ? -1 : 1;
      const rows = [...body.rows].map((row) => [value(row), row]);
      rows.sort(([a], [b]) => sign * (numeric ? Number(a) - Number(b) : a.localeCompare(b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
  if (body.rows.length > 10) {
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Filter";
    input.setAttribute("aria-label", "Filter " + table.getAttribute("aria-label"));
    table.parentElement.before(input);
    input.addEventListener("input", () => {
      const text = input.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(text);
    });
  }
}
