"use strict";
// What the service did and how it is, anew every few seconds while the page is seen.
const EVERY = 5000;

function factsOf(found) {
  return [
    ["state", found.problems.length ? plural(found.problems.length, "problem") : "fine"],
    ["votes", found.votes ? whole(found.votes.total) : MISSING],
    ["decisions", found.votes ? whole(found.votes.decisions) : MISSING],
    ["under way", whole(found.in_flight - 1)],
    ["model", found.model_version.slice(0, 8)],
    ["store", found.store],
  ];
}

function votePlot(byHour) {
  return (width) => {
    const high = Math.max(1, ...byHour);
    const { drawing, X, Y } = frame(
      width,
      220,
      { low: -byHour.length, high: 0, label: "hours ago" },
      { low: 0, high, label: "votes", format: (value) => (Number.isInteger(value) ? whole(value) : "") },
    );
    drawing.setAttribute("aria-label", `Votes by hour, the latest last: ${byHour.join(", ")}.`);
    drawing.append(
      ...byHour.map((count, hour) =>
        svg("rect", {
          class: "column",
          x: X(hour - byHour.length) + 0.5,
          width: Math.max(1, X(1) - X(0) - 1),
          y: Y(count),
          height: Y(0) - Y(count),
          "data-tip": `${plural(count, "vote")}, ${byHour.length - hour} to ${byHour.length - hour - 1} hours ago`,
        }),
      ),
    );
    return drawing;
  };
}

const number = (label, key, format = whole) => ({
  label,
  value: (row) => row[key] ?? null,
  cell: (row) => format(row[key] ?? null),
});
const words = (label, key) => ({ label, text: true, value: (row) => row[key] });
const table = (id, caption, columns, rows, none) =>
  rows.length ? sortable(id, caption, columns, rows) : el("p", { class: "dim", text: none });

function draw(found) {
  document.body.dataset.there = "yes";
  fill("facts", ...factsOf(found).map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
  fill("problems", found.problems.length ? listOf(found.problems, true) : el("p", { class: "lead", text: "None." }));
  $("votes-lead").textContent = found.votes
    ? `${plural(found.votes.total, "vote")}, ${whole(found.votes.skips)} of them skips; by hour over the last day.`
    : "The store does not answer.";
  if (found.votes) fitted($("votes"), votePlot(found.votes.by_hour));
  const times = [number("Median", "median_seconds", seconds), number("95th percentile", "p95_seconds", seconds)];
  const columns = [words("Route", "route"), number("Requests", "requests"), number("Refused", "refused"), number("Errors", "errors")];
  fill("requests", table("request-rows", "Requests by route", [...columns, ...times], found.routes, "None yet."));
  $("upstreams-section").hidden = !found.gateway;
  if (found.gateway) {
    const faults = {
      label: "Faults",
      text: true,
      value: (row) => Object.entries(row.faults).map(([kind, count]) => `${kind} ${count}`).join(", ") || "none",
    };
    const of = [words("Agent", "agent"), number("Served", "served"), number("Refusals passed on", "passed_on"), faults, ...times];
    const spent = [number("Tokens", "tokens"), number("Cost", "cost", (value) => (value === null ? MISSING : brief(value)))];
    fill("upstreams", table("upstream-rows", "What each upstream did", [...of, ...spent], found.gateway.agents, "None was asked yet."));
  }
  const drift = [
    words("Column", "column"),
    number("Decisions", "decisions"),
    number("Distance", "distance", (value) => fixed(value)),
    words("Measured in", "measure"),
    number("Values no vote had", "unknown", (value) => percent(value)),
  ];
  fill("drift", table("drift-rows", "Drift by column", drift, found.drift ?? [], "Fewer than 30 decisions with a context so far, or the explorer was not opened yet."));
  const history = [words("Version", "version"), { label: "Since", text: true, value: (row) => row.at, cell: (row) => clockTime(row.at) }, words("Why", "reason")];
  fill("history", table("history-rows", "Which version served since when", history, found.history, "None."));
  $("footer").textContent = `As of ${clockTime(found.now)}; anew every ${EVERY / 1000} seconds.`;
  document.body.dataset.ready = "yes";
}

async function refresh() {
  if (document.hidden) return;
  try {
    draw(await ask("v1/status"));
    fill("trouble");
  } catch (error) {
    complain("trouble", error);
  }
}

startKey(refresh);
refresh();
setInterval(refresh, EVERY);
