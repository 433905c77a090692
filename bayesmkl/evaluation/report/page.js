"use strict";
// Sort by a click, or Enter, on the head of a column; show the rows of one data set or model.
const words = new Intl.Collator("en", { numeric: true });

function sortKey(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value === undefined) return cell.textContent.trim();
  return cell.dataset.value === "" ? NaN : Number(cell.dataset.value);
}

function isMissing(key) {
  return key === "" || Number.isNaN(key);
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one === other ? 0 : one < other ? -1 : 1;
  return words.compare(String(one), String(other));
}

function sortTable(head) {
  const table = head.closest("table");
  const other = { ascending: "descending", descending: "ascending" };
  const first = head.dataset.first || "ascending";
  const order = other[head.getAttribute("aria-sort")] || first;
  const sign = order === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const keyed = Array.from(body.rows, (row) => [sortKey(row, head.cellIndex), row]);
  keyed.sort(([one], [another]) =>
    isMissing(one) || isMissing(another) ? isMissing(one) - isMissing(another) : sign * compare(one, another));
  body.append(...keyed.map(([, row]) => row));
  for (const sibling of head.parentNode.cells) sibling.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
}

function filterRows(filters) {
  const table = document.getElementById(filters.dataset.table);
  const chosen = Array.from(filters.querySelectorAll("select"), (menu) => [menu.dataset.columns.split(" "), menu.value]);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const has = (columns, value) => columns.some((column) => row.cells[column].textContent === value);
    row.hidden = !chosen.every(([columns, value]) => value === "" || has(columns, value));
    shown += !row.hidden;
  }
  filters.querySelector("output").value = `${shown} of ${table.tBodies[0].rows.length} rows`;
}

for (const button of document.querySelectorAll(".sortable th button"))
  button.addEventListener("click", () => sortTable(button.parentNode));
for (const filters of document.querySelectorAll(".filters"))
  filters.addEventListener("change", () => filterRows(filters));
