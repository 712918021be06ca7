"use strict";
// The explorer: the report of the version that serves, and its lottery at a context of the visitor's own.
let latest = 0; // number of the last question, so that a late answer to an earlier one is not shown
let waiting = null;

function asked() {
  const body = { context: contextOf() };
  if (D.prompt && $("prompt").value) body.prompt = $("prompt").value;
  if (Number($("cost").value) > 0) body.cost_weight = Number($("cost").value);
  return body;
}

function drawLottery(found) {
  const shown = Object.entries(found.lottery)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 8);
  const rest = Object.keys(found.lottery).length - shown.length;
  const rows = shown.map(([agent, share]) =>
    el(
      "tr",
      { class: found.winners.includes(agent) ? "won" : null },
      el("th", { scope: "row", title: agent, text: agent }),
      el("td", { class: "track" }, el("i", { css: { width: `${100 * share}%` } })),
      el("td", { class: "n", text: fixed(share) }),
    ),
  );
  fill(
    "live-lottery",
    el(
      "table",
      { class: "lottery-bars", id: "bars" },
      el("caption", { class: "unseen", text: "The lottery at this context" }),
      el("tbody", {}, ...rows),
    ),
    rest > 0 ? el("p", { class: "small dim", text: `${plural(rest, "other agent")} with less.` }) : null,
  );
  const cost = found.expected_cost === null ? "" : ` Expected cost ${brief(found.expected_cost)}.`;
  const unsure = found.unsure ? ` Unsure: ${found.unsure}.` : "";
  $("live-reason").textContent = `${found.reason}.${cost}${unsure}`;
}

async function refresh() {
  const number = ++latest;
  try {
    const found = await ask("v1/explore/lottery", asked());
    if (number !== latest) return;
    drawLottery(found);
    fill("trouble");
  } catch (error) {
    if (number === latest) complain("live-lottery", error);
  }
}
function soon() {
  clearTimeout(waiting);
  $("why").hidden = true;
  $("cost-said").textContent = Number($("cost").value).toFixed(2);
  waiting = setTimeout(refresh, 200);
}

async function showWhy() {
  const { cost_weight: _, ...about } = asked();
  $("why").hidden = false;
  fill("why", el("p", { class: "dim", text: "Looking for the nearest contexts\u2026" }));
  try {
    drawWhy(await ask("v1/explore/why", about));
  } catch (error) {
    complain("why", error);
  }
}
function drawWhy(found) {
  const place = new Map(found.contexts.map((row, index) => [row, index]));
  const near = found.contexts.map((row, index) => ({ row, index }));
  const text = (value) => (value === null || value === undefined ? MISSING : short(String(value), 160));
  const columns = [
    { label: "Distance", value: (one) => found.distance[one.index], cell: (one) => fixed(found.distance[one.index]) },
    ...Object.entries(found.shown).map(([name, values]) => ({
      label: name,
      text: true,
      value: (one) => text(values[one.index]),
    })),
  ];
  const votes = [
    { label: "Vote", text: true, value: (vote) => vote.said },
    { label: "Share of weight", value: (vote) => vote.weight, cell: (vote) => percent(vote.weight, 1) },
    { label: "From a context shown above", text: true, value: (vote) => (place.has(vote.context) ? "yes" : "no") },
  ];
  fill(
    "why",
    el("h3", { text: "The nearest contexts in the log" }),
    sortable("near-rows", "The nearest logged contexts, in standard deviations of a typical feature", columns, near, { wide: false }),
    el("h3", { text: "The votes near by that weigh most" }),
    sortable("vote-rows", "The votes near by that weigh most", votes, found.votes, { wide: false }),
  );
}

function drawHead() {
  $("decision").textContent = D.decision[0] ?? "Which agent, for what?";
  const facts = [
    ["agents", whole(D.agents.length)],
    ["contexts", whole(D.facts.contexts)],
    ["votes", whole(D.facts.records)],
    ["pairs compared", `${whole(D.facts.pairs_seen)} of ${whole(D.facts.pairs)}`],
    D.facts.pairs_bridged ? ["pairs bridged", whole(D.facts.pairs_bridged)] : null,
    ["model", D.model_version.slice(0, 8)],
  ].filter(Boolean);
  fill("facts", ...facts.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
  fill("findings", ...[...D.decision.slice(1), ...D.findings].map((text) => el("li", { text })));
  $("footer").textContent = `NashEval ${D.version}. This page loads nothing from other places.`;
  const sections = [
    ["ask", "Ask"],
    ["leaderboard", "Leaderboard"],
    ["adjusted", "Style"],
    ["groups", "By group"],
    ["payoffs", "Payoffs"],
    ["costs", "Cost"],
  ];
  fill("nav", ...sections.filter(([id]) => !$(id).hidden).map(([id, text]) => el("a", { href: `#${id}`, text })));
}

async function load() {
  fill("trouble", el("p", { class: "lead", text: "Gathering what the votes say\u2026" }));
  try {
    Object.assign(D, await ask("v1/explore"));
  } catch (error) {
    return complain("trouble", error);
  }
  fill("trouble");
  document.body.dataset.there = "yes";
  $("prompt-row").hidden = !D.prompt;
  $("cost-row").hidden = !D.has_costs;
  fill("inputs", ...D.inputs.map(inputFor));
  startGroups();
  drawAdjusted();
  drawFrontier();
  drawHead();
  document.body.dataset.ready = "yes";
  return refresh();
}

startTheme();
startKey(load);
$("question").addEventListener("input", soon);
$("question").addEventListener("submit", (event) => event.preventDefault());
$("why-button").addEventListener("click", showWhy);
load();
