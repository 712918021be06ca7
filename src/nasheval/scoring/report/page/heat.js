// Heat maps are tables: one stop of the Tab key, arrow keys inside.
function heat(caption, corner, heads, rows, size = "") {
  const table = el(
    "table",
    { class: `heat ${size}` },
    el("caption", { class: "unseen", text: caption }),
    el("thead", {}, el("tr", {}, el("td", { class: "corner", text: corner }), ...heads)),
    el("tbody", {}, ...rows),
  );
  roving(table);
  return scroller(caption, table);
}

function roving(table) {
  const grid = [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("td")]);
  if (!grid.length || !grid[0].length) return;
  for (const cell of grid.flat()) cell.tabIndex = -1;
  grid[0][0].tabIndex = 0;
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  table.addEventListener("keydown", (event) => {
    const step = steps[event.key],
      r = grid.findIndex((row) => row.includes(event.target));
    if (!step || r < 0) return;
    event.preventDefault();
    const next = grid[r + step[0]]?.[grid[r].indexOf(event.target) + step[1]];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

const headName = (name, flat) =>
  el("th", { scope: "col", title: name }, el("div", { class: flat ? null : "rot", text: short(name, 26) }));
const flatNames = (names) => names.every((name) => name.length <= 5);
const groupName = (view) => (view.column === "" ? "all" : view.name);
function groupButton(view, attributes) {
  return el(
    "button",
    {
      type: "button",
      "data-tip": `${groupName(view)}\n${plural(view.contexts, "context")}\nChoose this group`,
      onclick: () => chooseGroup(D.groups.indexOf(view)),
      ...attributes,
    },
    short(groupName(view), 26),
  );
}

// Which agents win at which share of a group's contexts.
function winnerMap(views, chosen) {
  const best = (agent) => Math.max(...views.map((view) => view.won[agent] ?? 0));
  const kept = D.groups[0].order
    .filter((agent) => best(agent) >= 0.005)
    .sort((a, b) => mean(views, "won", b) - mean(views, "won", a))
    .slice(0, 20);
  const flat = flatNames(views.slice(1).map(groupName));
  const heads = views.map((view) =>
    el(
      "th",
      { scope: "col", class: view === chosen ? "chosen" : null },
      flat ? groupButton(view, {}) : el("div", { class: "rot" }, groupButton(view, {})),
    ),
  );
  const rows = kept.map((agent) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", title: D.agents[agent], text: D.agents[agent] }),
      ...views.map((view) => winnerCell(view, agent)),
    ),
  );
  const caption = "Share of each group\u2019s contexts at which an agent is among the winners";
  const key = el(
    "div",
    { class: "key" },
    el("span", {}, "0%", el("i", { class: "ramp rate" }), "100%"),
    kept.length < D.agents.length
      ? el("span", {
          text: `${kept.length} of ${D.agents.length} agents; the others win ${kept.length < 20 ? "hardly anywhere" : "less often"}.`,
        })
      : null,
  );
  return [heat(caption, state.column, heads, rows, views.length > 22 ? "tiny" : views.length > 14 ? "dense" : ""), key];
}
function winnerCell(view, agent) {
  const share = view.won[agent];
  const standing = view.order.includes(agent)
    ? `lottery of the group ${fixed(view.lottery[agent])}, rating ${whole(view.rating[agent])}`
    : "no candidate in the leaderboard of this group: without a vote here";
  const tip = `${D.agents[agent]}, ${groupName(view)}\namong the winners at ${percent(share, 1)} of contexts\n${standing}`;
  if (share === null) return el("td", { class: "none", text: MISSING, "data-tip": tip });
  return el("td", {
    class: "rate",
    "--v": share,
    text: share < 0.005 ? "" : Math.round(100 * share),
    "data-tip": tip,
    "aria-label": tip.replaceAll("\n", ", "),
  });
}
const mean = (views, name, agent) => views.reduce((sum, view) => sum + (view[name][agent] ?? 0), 0) / views.length;

// What is known of a pair, as the numbers in Payoffs.status; each but the first has its own mark and words.
const [SEEN, BRIDGED, UNKNOWN, ELSEWHERE] = [0, 1, 2, 3];
const MARKS = { [BRIDGED]: "bridged", [UNKNOWN]: "unknown", [ELSEWHERE]: "elsewhere" };
const KEYS = {
  [BRIDGED]: "never compared: bridged through other agents",
  [UNKNOWN]: "nothing connects them",
  [ELSEWHERE]: "compared elsewhere, not here",
};
const tied = (status) => D.facts.unseen !== "model" && (status === BRIDGED || status === UNKNOWN);
function keyOfStatus(status) {
  return status === BRIDGED && tied(status) ? "never compared: given as 0, a tie" : KEYS[status];
}
function statusInWords(status, low, high) {
  const allowed = `any transitive voters allow ${interval(low, high)}`;
  if (status === BRIDGED && tied(status)) return `never compared, given as 0, a tie; ${allowed}`;
  if (status === BRIDGED) return `bridged: never compared; ${allowed}`;
  if (status === UNKNOWN) return "unknown: nothing connects them; no vote tells which is better";
  return `compared elsewhere, not here; ${allowed}`;
}

// The payoff matrix of a group; underlined where the interval excludes zero, hatched where the pair was not compared.
function payoffMap(view) {
  const shown = view.payoffs.agents;
  const place = (r, c) => (r * (2 * shown.length - r - 1)) / 2 + c - r - 1;
  const rows = shown.map((agent, r) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", title: D.agents[agent], text: D.agents[agent] }),
      ...shown.map((other, c) =>
        r === c
          ? el("td", { class: "none", text: "", "aria-label": "the same agent" })
          : payoffCell(view, agent, other, r < c ? place(r, c) : place(c, r), r < c ? 1 : -1),
      ),
    ),
  );
  const caption = `Mean payoff of the row agent over the column agent, ${groupName(view)}`;
  const key = el(
    "div",
    { class: "key" },
    el("span", {}, "\u22121 column preferred", el("i", { class: "ramp both" }), "row preferred +1"),
    el("span", {}, el("i", { class: "swatch sure" }), `interval of ${percent(D.confidence)} excludes 0`),
    ...[BRIDGED, ELSEWHERE, UNKNOWN]
      .filter((status) => view.payoffs.status.includes(status))
      .map((status) => el("span", {}, el("i", { class: `swatch ${MARKS[status]}` }), keyOfStatus(status))),
  );
  return [
    heat(
      caption,
      "",
      shown.map((agent) => headName(D.agents[agent], flatNames(shown.map((one) => D.agents[one])))),
      rows,
      shown.length > 6 ? "dense" : "",
    ),
    key,
  ];
}
function payoffCell(view, agent, other, pair, sign) {
  const value = sign * view.payoffs.estimate[pair],
    ends = [sign * view.payoffs.low[pair], sign * view.payoffs.high[pair]].sort((a, b) => a - b);
  const status = view.payoffs.status[pair],
    sure = status === SEEN && (ends[0] > 0 || ends[1] < 0); // only votes on the pair itself are sure
  const verdict = sure ? `${D.agents[value > 0 ? agent : other]} is preferred` : "no significant difference";
  const allowed = [sign * view.payoffs.allowed_low[pair], sign * view.payoffs.allowed_high[pair]].sort((a, b) => a - b);
  const ground =
    status === SEEN
      ? `${plural(view.payoffs.votes[pair], "vote")}; ${verdict}`
      : statusInWords(status, ...allowed);
  const known = status === UNKNOWN ? "" : `${signed(value)} (${interval(...ends)})\n`;
  const tip = `${D.agents[agent]} over ${D.agents[other]}\n${known}${ground}`;
  const side = value >= 0 ? "pos" : "neg";
  return el("td", {
    class: [side, sure ? "sure" : null, MARKS[status]].filter(Boolean).join(" "),
    "--v": Math.min(1, Math.abs(value)),
    text: status === UNKNOWN ? "?" : signed(value),
    "data-tip": tip,
    "aria-label": tip.replaceAll("\n", ", "),
  });
}

// Lotteries as stacked bars; the colours are those of Okabe and Ito, which are told apart without red and green.
const COLOURS = [
  ["#0072b2", "#ffffff"],
  ["#e69f00", "#101010"],
  ["#56b4e9", "#101010"],
  ["#cc79a7", "#101010"],
  ["#009e73", "#101010"],
  ["#f0e442", "#101010"],
  ["#d55e00", "#101010"],
];
const OTHERS = ["#a8adb4", "#101010"];
function lotteryBars(views, chosen) {
  const weight = D.agents.map((_, agent) => mean(views, "lottery", agent));
  const named = weight
    .map((_, agent) => agent)
    .filter((agent) => weight[agent] > 0)
    .sort((a, b) => weight[b] - weight[a])
    .slice(0, COLOURS.length);
  const rows = views.map((view) => {
    const parts = named.map((agent, c) => [D.agents[agent], view.lottery[agent], COLOURS[c]]);
    parts.push(["others", Math.max(0, 1 - parts.reduce((sum, part) => sum + part[1], 0)), OTHERS]);
    const played = parts.filter((part) => part[1] >= 0.001);
    const said = played.map(([name, share]) => `${name} ${fixed(share)}`).join(", ");
    const bar = el(
      "div",
      { class: "stack", "aria-hidden": "true" },
      ...played.map(([name, share, [back, front]]) =>
        el("i", {
          class: share < 0.06 ? "sliver" : null,
          css: { flex: `${share} 1 0`, background: back, color: front },
          "data-tip": `${name} ${fixed(share, 3)}\n${groupName(view)}`,
          text: share < 0.06 ? "" : `${name} ${fixed(share)}`,
        }),
      ),
    );
    return el(
      "tr",
      { class: view === chosen ? "chosen" : null },
      el("th", { scope: "row" }, groupButton(view, {})),
      el("td", {}, bar, el("span", { class: "unseen", text: said })),
    );
  });
  const key = el(
    "div",
    { class: "key" },
    ...named.map((agent, c) =>
      el("span", {}, el("i", { class: "swatch", css: { background: COLOURS[c][0] } }), D.agents[agent]),
    ),
    named.length < weight.filter((share) => share > 0).length
      ? el("span", {}, el("i", { class: "swatch", css: { background: OTHERS[0] } }), "others")
      : null,
  );
  const head = state.column
    ? el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "dim", text: state.column }), el("td")))
    : null;
  return [
    el(
      "table",
      { class: "stacks" },
      el("caption", { class: "unseen", text: "Lottery of each group" }),
      el("colgroup", {}, el("col", { class: "names" }), el("col")),
      head,
      el("tbody", {}, ...rows),
    ),
    key,
  ];
}
