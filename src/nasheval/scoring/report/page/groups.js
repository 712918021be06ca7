// Groups of contexts: which one is chosen, and what is drawn of it.
const state = { column: "", group: 0, cycle: null };
const chosenView = () => D.groups[state.group];
const viewsOfColumn = () => [
  D.groups[0],
  ...D.groups.filter((view) => view.column !== "" && view.column === state.column),
];
const titled = (view) => (view.column === "" ? "all contexts" : `${view.column} ${view.name}`);

function chooseColumn(column) {
  state.column = column;
  fillGroups();
  chooseGroup(0);
}
function chooseGroup(index) {
  const focus = document.activeElement?.closest?.("#winners, #lotteries")?.id; // its button is about to be drawn anew
  state.group = index;
  state.cycle = null;
  $("group").value = String(index);
  drawGroup();
  if (focus) $(focus).querySelector(".chosen button")?.focus({ preventScroll: true });
  say(`Showing ${titled(chosenView())}.`);
}
function fillGroups() {
  fill(
    "group",
    ...viewsOfColumn().map((view) =>
      el("option", {
        value: D.groups.indexOf(view),
        text: view.column === "" ? "All contexts" : `${view.name} (${whole(view.contexts)})`,
      }),
    ),
  );
}

function drawGroup() {
  const view = chosenView(),
    views = viewsOfColumn();
  for (const node of document.querySelectorAll(".of-group")) node.textContent = titled(view);
  const absent = D.agents.length - view.order.length;
  const left = absent ? ` ${plural(absent, "agent")} without a vote here ${absent === 1 ? "is" : "are"} left out.` : "";
  const tied =
    view.tied.length === view.order.length && view.order.length > 1
      ? " The votes tell no agents apart."
      : ` The votes tell ${view.order.length - view.tied.length} of ${view.order.length} agents apart from the leader.`;
  $("leaderboard-lead").textContent =
    `${plural(view.contexts, "context")}. ${view.winners.length === 1 ? `${D.agents[view.winners[0]]} is the only winner.` : `${view.winners.length} agents share the lottery.`}${tied}${left}`;
  fill("leaderboard-table", leaderboard(view));
  fill("winners", ...winnerMap(views, view));
  fill("lotteries", ...lotteryBars(views, view));
  const few =
    view.payoffs.agents.length < view.order.length
      ? ` The first ${view.payoffs.agents.length} of ${view.order.length} agents.`
      : "";
  const unmet = view.payoffs.status.some((status) => status !== SEEN)
    ? " Outlined and in italics where the two were not compared here; such a payoff is never certain."
    : "";
  $("matrix-lead").textContent =
    `Underlined where the interval, at ${percent(D.confidence)} for all pairs of the group together, excludes 0.${unmet}${few}`;
  $("matrix-figure").classList.toggle("wide", view.payoffs.agents.length > 9);
  fill("matrix", ...payoffMap(view));
  drawGraph();
  fill("group-notes", listOf(view.notes.map(sentence)));
}
const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

function drawGraph() {
  const view = chosenView();
  const held = view.preferences.n_cycles
    ? `${plural(view.preferences.n_cycles, "cycle")} ${view.preferences.n_cycles === 1 ? "holds" : "hold"} at ${percent(D.confidence)} confidence`
    : D.facts.only_a_ladder
      ? "These votes can only tell a ladder: no cycle can be seen"
      : `No cycle holds at ${percent(D.confidence)} confidence`;
  const few =
    view.preferences.agents.length < view.order.length
      ? ` ${view.preferences.agents.length} of ${view.order.length} agents.`
      : "";
  $("graph-lead").textContent = `Preferences that are certain, all pairs together. ${held}.${few}`;
  fitted($("graph"), preferenceGraph(view, state.cycle));
  fill(
    "cycles",
    cycleList(view, state.cycle, (index) => {
      state.cycle = index;
      drawGraph();
      $("cycles").querySelectorAll("button")[index ?? 0]?.focus({ preventScroll: true });
    }),
  );
}

function isDark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-pressed", String(isDark()));
}
function startGroups() {
  state.column = D.columns[0] ?? "";
  fill("column", ...D.columns.map((column) => el("option", { value: column, text: column })));
  $("column-label").hidden = D.columns.length < 2;
  $("column").addEventListener("change", () => chooseColumn($("column").value));
  $("group").addEventListener("change", () => chooseGroup(Number($("group").value)));
  fillGroups();
  drawGroup();
}
function startTheme() {
  $("theme").setAttribute("aria-pressed", String(isDark()));
  $("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
}
