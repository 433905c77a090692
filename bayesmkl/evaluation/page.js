"use strict";
// Sort by a click, or Enter, on the head of a column; show the rows that have the words of a field.
const words = new Intl.Collator("en", { numeric: true });

function sortTable(head) {
  const other = { ascending: "descending", descending: "ascending" };
  const order = other[head.getAttribute("aria-sort")] || "ascending";
  const sign = order === "ascending" ? 1 : -1;
  const body = head.closest("table").tBodies[0];
  const isNumber = head.classList.contains("number");
  const keyed = Array.from(body.rows, (row) => {
    const text = row.cells[head.cellIndex].textContent.trim();
    return [isNumber ? parseFloat(text) : text, row];
  });
  const isMissing = (key) => key === "" || Number.isNaN(key);
  const compare = (one, another) => isNumber ? one - another : words.compare(one, another);
  keyed.sort(([one], [another]) =>
    isMissing(one) || isMissing(another) ? isMissing(one) - isMissing(another) : sign * compare(one, another));
  body.append(...keyed.map(([, row]) => row));
  for (const sibling of head.parentNode.cells) sibling.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
}

function addFilter(table) {
  const rows = Array.from(table.tBodies[0].rows);
  if (rows.length <= 10) return;
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "Show rows with ..." });
  field.setAttribute("aria-label", "Show rows with");
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase().split(" ").filter(Boolean);
    for (const row of rows) {
      const text = Array.from(row.cells, (cell) => cell.textContent.toLowerCase()).join(" ");
      row.hidden = !wanted.every((word) => text.includes(word));
    }
  });
  table.parentNode.before(field);
}

for (const button of document.querySelectorAll(".sortable th button"))
  button.addEventListener("click", () => sortTable(button.parentNode));
for (const table of document.querySelectorAll(".sortable")) addFilter(table);
