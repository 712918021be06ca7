// What else is known of a model, as sections of sentences, tables and bars: an audit, a plan. All of it is text.
function drawAudit() {
  $("audit").hidden = !D.audit.length;
  fill("audit-parts", ...D.audit.map((part, number) => auditPart(part, `audit-${number}`)));
}
function auditPart(part, id) {
  const held = [el("h3", { text: part.title }), listOf(part.lines)];
  part.charts.forEach((chart) => held.push(barsOf(chart)));
  part.listings.forEach((table, number) => held.push(auditTable(table, `${id}-${number}`)));
  return el("div", { class: "block audit-part" }, ...held);
}
// Texts are sorted as numbers where they begin with one.
const leading = (text) => {
  const number = Number.parseFloat(text.replaceAll(",", "").replace("\u2212", "-").replace(/^[^\d.+-]+/, ""));
  return Number.isNaN(number) ? null : number;
};
function auditTable(table, id) {
  const texts = table.names.map((label, place) => ({ label, text: true, value: (row) => row[place] }));
  const figures = table.numbers.map((label, index) => {
    const place = table.names.length + index;
    return { label, value: (row) => leading(row[place]), cell: (row) => row[place] };
  });
  return el("div", { class: "block" }, sortable(id, table.title, [...texts, ...figures], table.rows, { wide: false, most: 12 }));
}
// One bar per label, from zero; below zero it goes left. Those that stand out are darker.
function barsOf(chart) {
  const known = [...chart.values, ...chart.lower, ...chart.upper].filter((value) => value !== null);
  const low = Math.min(0, ...known),
    span = Math.max(0, ...known) - low || 1;
  const place = (value) => (100 * (value - low)) / span;
  const rows = chart.labels.map((label, index) => {
    const value = chart.values[index],
      ends = chart.lower.length ? [chart.lower[index], chart.upper[index]] : [null, null];
    const said = ends[0] === null ? "" : ` (${brief(ends[0])} to ${brief(ends[1])})`;
    const at = Math.min(place(value ?? 0), place(0)),
      width = Math.abs(place(value ?? 0) - place(0));
    const marked = !chart.marked.length || chart.marked[index];
    return el(
      "tr",
      {},
      el("th", { scope: "row", title: label, text: label }),
      el(
        "td",
        { class: "track", "aria-hidden": "true" },
        el("i", { class: marked ? "fill" : "fill pale", css: { left: `${at}%`, width: `${width}%` } }),
        ends[0] === null
          ? null
          : el("i", { class: "reach", css: { left: `${place(ends[0])}%`, width: `${place(ends[1]) - place(ends[0])}%` } }),
      ),
      el("td", { class: "n", text: value === null ? MISSING : `${brief(value)}${said}` }),
    );
  });
  const table = el(
    "table",
    { class: "bars" },
    el("caption", {}, el("span", { text: chart.title })),
    el("tbody", {}, ...rows),
  );
  return el("div", { class: "block" }, scroller(chart.title, table));
}
