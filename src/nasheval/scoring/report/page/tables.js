// Tables that sort by a click on a header, or by Enter or Space on it.
const sortings = new Map(); // what each table was last sorted by, kept when its rows change

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null); // what is missing comes last either way
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
}

function ordered(rows, column, down) {
  const known = rows.filter((row) => column.value(row) !== null),
    missing = rows.filter((row) => column.value(row) === null);
  known.sort((a, b) => (down ? -1 : 1) * compare(column.value(a), column.value(b)));
  return [...known, ...missing];
}

// columns: {label, value(row), cell(row) -> text or node, text: true for words, tip}; the first is the row's header.
function sortable(
  id,
  caption,
  columns,
  rows,
  { row: rowClass = () => null, most = 25, label = "rows", wide = true } = {},
) {
  const state = sortings.get(id) ?? { column: null, down: false, all: false };
  sortings.set(id, state);
  const body = el("tbody"),
    more = el("button", { type: "button", class: "plain more" });
  const heads = columns.map((column, index) => {
    const button = el(
      "button",
      { type: "button", "data-tip": column.tip ?? null, onclick: () => choose(index) },
      column.label,
      el("span", { class: "arrow", "aria-hidden": "true" }),
    );
    return el("th", { scope: "col", class: column.text ? null : "n" }, button);
  });
  function choose(index) {
    state.down = state.column === index ? !state.down : !columns[index].text;
    state.column = index;
    draw();
    say(`Sorted by ${columns[index].label}, ${state.down ? "highest first" : "lowest first"}.`);
  }
  function draw() {
    const sorted = state.column === null ? rows : ordered(rows, columns[state.column], state.down);
    const shown = state.all ? sorted : sorted.slice(0, most);
    body.replaceChildren(
      ...shown.map((row) =>
        el("tr", { class: rowClass(row) }, ...columns.map((column, index) => cell(column, index, row))),
      ),
    );
    heads.forEach((head, index) => {
      const on = index === state.column;
      head.setAttribute("aria-sort", on ? (state.down ? "descending" : "ascending") : "none");
      head.querySelector(".arrow").textContent = on ? (state.down ? "\u25bc" : "\u25b2") : "";
    });
    more.hidden = rows.length <= most;
    more.textContent = state.all ? `Show the first ${most}` : `Show all ${rows.length} ${label}`;
  }
  function cell(column, index, row) {
    const content = column.cell ? column.cell(row) : column.value(row);
    if (index === 0)
      return el("th", { scope: "row", title: typeof content === "string" ? content : column.value(row) }, content);
    return el("td", { class: column.text ? null : "n" }, content);
  }
  more.addEventListener("click", () => {
    state.all = !state.all;
    draw();
  });
  draw();
  const table = el(
    "table",
    { class: "sortable", id, css: wide ? {} : { width: "auto" } },
    el("caption", {}, el("span", { text: caption })),
    el("thead", {}, el("tr", {}, ...heads)),
    body,
  );
  return el("div", {}, scroller(caption, table), more);
}

// The numbers behind a drawing, folded away.
function numbers(id, caption, columns, rows) {
  return el(
    "details",
    { class: "numbers" },
    el("summary", { text: "Show the numbers" }),
    sortable(id, caption, columns, rows, { wide: false }),
  );
}

// A share with its range, on a line from 0 to 1.
function rangeMark(value, low, high) {
  const x = (share) => 4 + 144 * share;
  return svg(
    "svg",
    { class: "range", viewBox: "0 0 152 18", "aria-hidden": "true" },
    svg("rect", { class: "track", x: 4, y: 8, width: 144, height: 2, rx: 1 }),
    svg("rect", { class: "span", x: x(low), y: 6, width: Math.max(2, x(high) - x(low)), height: 6, rx: 3 }),
    svg("circle", { class: "dot", cx: x(value), cy: 9, r: 4 }),
  );
}
