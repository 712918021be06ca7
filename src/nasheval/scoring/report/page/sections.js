// What the sections of the page hold.
function leaderboard(view) {
  const level = percent(D.confidence),
    rows = view.order.map((agent) => ({ agent, won: view.winners.includes(agent), tied: view.tied.includes(agent) }));
  const of = (name) => (row) => view[name][row.agent];
  return sortable(
    "leaderboard-rows",
    `Agents in ${titled(view)}, most probable first`,
    [
      {
        label: "Agent",
        text: true,
        value: (row) => D.agents[row.agent],
        cell: (row) =>
          row.won || row.tied
            ? el(
                "div",
                { class: "named" },
                el("span", { text: D.agents[row.agent] }),
                el("span", { class: row.won ? "badge" : "badge dim", text: row.won ? "winner" : "tied" }),
              )
            : D.agents[row.agent],
      },
      {
        label: "Lottery",
        value: of("lottery"),
        cell: (row) => fixed(view.lottery[row.agent]),
        tip: "Share of the winning lottery",
      },
      {
        label: `Stability range (${level})`,
        text: true,
        value: of("upper"),
        cell: (row) =>
          el(
            "span",
            { class: "ranged" },
            rangeMark(view.lottery[row.agent], view.lower[row.agent], view.upper[row.agent]),
            el("span", {
              class: "dim small",
              text: `${fixed(view.lower[row.agent])} to ${fixed(view.upper[row.agent])}`,
            }),
          ),
        tip: "Where the share lies in most bootstrap draws; sorts by its upper end",
      },
      {
        label: "Wins in draws",
        value: of("frequency"),
        cell: (row) => percent(view.frequency[row.agent]),
        tip: "Share of bootstrap draws in which the agent is among the winners of the group",
      },
      {
        label: "Contexts won",
        value: of("won"),
        cell: (row) => percent(view.won[row.agent]),
        tip: "Share of the group\u2019s contexts at which the agent is among the winners",
      },
      {
        label: "Rating",
        value: of("rating"),
        cell: (row) =>
          el(
            "span",
            {},
            whole(view.rating[row.agent]),
            el("span", {
              class: "dim small",
              text: view.rating_error[row.agent] === null ? "" : ` \u00b1 ${whole(view.rating_error[row.agent])}`,
            }),
          ),
        tip: "Bradley\u2013Terry rating, Elo scale, \u00b1 one standard error",
      },
      ...(D.tool
        ? [
            {
              label: D.tool[0],
              value: of("tool_score"),
              cell: (row) => fixed(view.tool_score[row.agent], D.tool[1]),
              tip: `Score by the own rule of ${D.tool[0]}, from the same votes`,
            },
          ]
        : []),
      {
        label: "Votes",
        value: of("votes"),
        cell: (row) => whole(view.votes[row.agent]),
        tip: "Comparisons that show the agent",
      },
      ...(view.bridged.some((count) => count > 0)
        ? [
            {
              label: "Never met",
              value: of("bridged"),
              cell: (row) => whole(view.bridged[row.agent]),
              tip: `Opponents here that the agent was never compared with, in the whole log: ${D.facts.unseen === "model" ? "those payoffs are bridged through others" : "those payoffs are given as 0, a tie"}`,
            },
          ]
        : []),
    ],
    rows,
    { row: (row) => (row.won ? "won" : null), label: "agents" },
  );
}

function drawFrontier() {
  $("costs").hidden = !D.frontier.length;
  if (!D.frontier.length) return;
  fitted($("frontier"), frontierPlot());
  $("frontier").after(
    numbers(
      "frontier-numbers",
      "Cost and estimated exploitability",
      [
        { label: "Choice", text: true, value: (point) => point.name },
        { label: "Cost", value: (point) => point.cost, cell: (point) => brief(point.cost) },
        {
          label: "Estimated exploitability",
          value: (point) => point.exploitability,
          cell: (point) => fixed(point.exploitability, 3),
        },
      ],
      D.frontier,
    ),
  );
}

function drawAdjusted() {
  const found = D.adjusted;
  $("adjusted").hidden = !found;
  if (!found) return;
  const name = found.names.length ? found.estimand : "adjusted for nothing";
  $("adjusted-name").textContent = name;
  $("adjusted-page").textContent = found.estimand;
  if (found.names.length)
    document.querySelectorAll(".estimand").forEach((tag) => {
      tag.hidden = false;
      tag.textContent = found.estimand;
    });
  const within = (row) => `${signed(row.value, 3)} ${interval(row.low, row.high, 3)}`;
  const agents = found.agents.map((agent, a) => ({
    agent,
    voted: found.voted[a],
    equal: found.equal[a],
    value: found.difference[a],
    low: found.lower[a],
    high: found.upper[a],
  }));
  const number = (label, key) => ({ label, value: (row) => row[key], cell: (row) => signed(row[key], 3) });
  const last = { label: "Difference", text: true, value: (row) => row.value, cell: within };
  const effects = found.names.map((_, s) => ({
    what: found.meanings[s],
    value: found.effect[s],
    low: found.effect_lower[s],
    high: found.effect_upper[s],
  }));
  const columns = [{ label: "Agent", text: true, value: (row) => row.agent }];
  columns.push(number("As voted", "voted"), number(sentence(name).slice(0, -1), "equal"), last);
  const what = { label: "Of two answers", text: true, value: (row) => row.what };
  const caption = `Mean payoff against the opponents an agent met, over all contexts, with intervals of ${percent(D.confidence)} for each difference alone`;
  const adds = "What moves verdicts, all contexts together";
  if (!effects.length) fill("adjusted-agents");
  else {
    fill("adjusted-agents", sortable("adjusted-rows", caption, columns, agents, { wide: false }));
    const worth = { ...last, label: "Adds to a verdict" };
    fill("adjusted-effects", sortable("effect-rows", adds, [what, worth], effects, { wide: false }));
  }
  fill("adjusted-notes", listOf(found.notes.map(sentence)));
}

function drawHeldOut() {
  const found = D.held_out;
  $("heldout").hidden = !found;
  if (!found) return;
  fill("heldout-lead", el("span", { class: "verdict", text: found.verdict }));
  const draw = (index) => {
    const contest = found.contests[index];
    fill("robin", found.policies.length > 1 ? robin(found, contest) : null);
    fill("worst", el("div", { class: "block" }, worst(found, contest, index)));
  };
  if (found.contests.length > 1) {
    const select = el(
      "select",
      { id: "heldout-group", onchange: () => draw(Number(select.value)) },
      ...found.contests.map((contest, index) =>
        el("option", { value: index, text: index ? `${found.by} ${contest.name}` : "All contexts" }),
      ),
    );
    fill(
      "heldout-choice",
      el("div", { class: "choices", css: { margin: "0.7rem 0" } }, el("label", {}, "Held-out group ", select)),
    );
  }
  draw(0);
  fill("heldout-notes", listOf(found.notes.map(sentence)));
}
function robin(found, contest) {
  const caption = `What the row policy wins against the column policy over ${plural(contest.contexts, "held-out context")}, with intervals of ${percent(found.confidence)} that hold together${found.at_every_look ? ", and at every look" : ""}; underlined where 0 is excluded`;
  const most = Math.max(0.02, ...contest.value.flat().map((value) => Math.abs(value ?? 0)));
  const cell = (a, b) => {
    if (a === b) return el("td", { class: "dim", text: MISSING });
    const value = contest.value[a][b],
      low = contest.lower[a][b],
      high = contest.upper[a][b];
    if (contest.same[a][b]) return el("td", { class: "dim", text: "the same" });
    const kind = `${value >= 0 ? "pos" : "neg"}${low > 0 || high < 0 ? " sure" : ""}`;
    return el(
      "td",
      { class: kind, "--v": (0.85 * Math.abs(value)) / most },
      signed(value, 3),
      el("small", { text: interval(low, high, 3) }),
    );
  };
  return scroller(
    caption,
    el(
      "table",
      { class: "robin", id: "robin-table" },
      el("caption", {}, el("span", { text: caption })),
      el("thead", {}, el("tr", {}, el("td"), ...found.policies.map((name) => el("th", { scope: "col", text: name })))),
      el(
        "tbody",
        {},
        ...found.policies.map((name, a) =>
          el("tr", {}, el("th", { scope: "row", text: name }), ...found.policies.map((_, b) => cell(a, b))),
        ),
      ),
    ),
  );
}
function worst(found, contest, index) {
  const rows = found.policies.map((name, p) => ({ name, p }));
  const columns = [
    { label: "Policy", text: true, value: (row) => row.name },
    { label: "Worst single opponent", text: true, value: (row) => contest.opponent[row.p] },
    {
      label: "It wins",
      value: (row) => contest.worst[row.p],
      cell: (row) => signed(contest.worst[row.p], 3),
      tip: "A lower bound on exploitability; below 0 the policy beats every single agent",
    },
    {
      label: "Interval",
      text: true,
      value: (row) => contest.worst_lower[row.p],
      cell: (row) => interval(contest.worst_lower[row.p], contest.worst_upper[row.p], 3),
    },
  ];
  if (found.cost && index === 0)
    columns.push({ label: "Cost", value: (row) => found.cost[row.p], cell: (row) => brief(found.cost[row.p]) });
  return sortable("worst-rows", "The single agent that does best against each policy", columns, rows, { wide: false });
}

function drawTrust() {
  const trust = D.trust;
  fill(
    "warnings",
    trust.warnings.length
      ? listOf(trust.warnings, true)
      : el("p", { class: "lead", text: "Nothing stands out: the checks below raised no warning." }),
  );
  const score = (value) => (value === null ? "not known" : fixed(value, 3));
  $("outcome-lead").textContent =
    `${whole(trust.verdicts)} verdicts out of fold: R\u00b2 ${score(trust.r2)}, of it by context ${score(trust.r2_within)}. Bars are two standard errors.`;
  placed("outcome", calibrationPlot("outcome", trust.outcome, "verdict", "linear"), trust.outcome);
  $("propensity-figure").hidden = !trust.propensity;
  const ground = [trust.propensity_model && `Model: ${trust.propensity_model}`, trust.propensity_check];
  for (const text of ground.filter(Boolean)) $("overlap-lead").after(el("p", { text: sentence(text) }));
  if (trust.propensity)
    placed("propensity", calibrationPlot("propensity", trust.propensity, "propensity", "log"), trust.propensity);
  $("overlap-lead").textContent =
    `How likely each record\u2019s menu was to be asked at its context. Smallest ${trust.smallest === null ? "not known" : brief(trust.smallest)}; ${trust.floor ? `${percent(trust.clipped_share, 1)} of records raised to ${brief(trust.floor)} of their menu\u2019s share` : "known, none raised"}.`;
  if (trust.overlap.count.length === 1)
    $("overlap-lead").textContent =
      `Every record\u2019s menu was asked with the same propensity, ${brief(trust.smallest)}.`;
  else if (trust.overlap.count.length)
    fitted(
      $("overlap"),
      histogramPlot(trust.overlap, "propensity (log scale)", null, "records"),
    );
  if (trust.effective.count.length)
    fitted(
      $("effective"),
      histogramPlot(trust.effective, "effective votes (log scale)", { at: 30, name: "30" }, "pairs"),
    );
  $("effective").after(
    numbers(
      "thin-rows",
      "Pairs with fewest effective votes",
      [
        { label: "Pair", text: true, value: (pair) => `${D.agents[pair.first]} and ${D.agents[pair.second]}` },
        { label: "Votes", value: (pair) => pair.votes, cell: (pair) => whole(pair.votes) },
        {
          label: "Effective",
          value: (pair) => pair.effective,
          cell: (pair) => (pair.effective >= 100 ? whole(pair.effective) : fixed(pair.effective, 1)),
        },
      ],
      trust.thinnest,
    ),
  );
}
function placed(id, plot, bins) {
  if (!bins.predicted.length) return;
  fitted($(id), plot.draw);
  $(id).after(plot.table);
}

function drawRest() {
  const facts = D.facts;
  const shown = [
    ["agents", whole(D.agents.length)],
    ["contexts", whole(facts.contexts)],
    ["records", whole(facts.records)],
    facts.voters === null ? null : ["voters", whole(facts.voters)],
    ["pairs compared", `${whole(facts.pairs_seen)} of ${whole(facts.pairs)}`],
    facts.pairs_bridged ? [facts.unseen === "model" ? "pairs bridged" : "pairs given as ties", whole(facts.pairs_bridged)] : null,
    facts.pairs_unknown ? ["pairs that nothing connects", whole(facts.pairs_unknown)] : null,
    ["menus", whole(facts.menus)],
    ["design", facts.design],
  ].filter(Boolean);
  fill(
    "facts",
    ...shown.map(([name, value]) =>
      el(
        "div",
        {},
        el("dt", { text: name }),
        el("dd", { text: value, title: name === "design" ? facts.design_reason : null }),
      ),
    ),
  );
  fill("findings", ...[D.decision.join(" "), ...D.findings].map((text) => el("li", { text })));
  $("method-error").textContent = percent(1 - D.confidence);
  const settings = [
    ["design of the log", `${facts.design} (${facts.design_reason})`],
    ["confidence", percent(D.confidence)],
    ...D.settings,
  ];
  fill(
    "settings",
    el(
      "div",
      { class: "block settings" },
      sortable(
        "settings-rows",
        "Settings used",
        [
          { label: "Setting", text: true, value: (row) => row[0] },
          { label: "Value", text: true, value: (row) => row[1] },
        ],
        settings,
        { wide: false, most: 60 },
      ),
    ),
  );
  fill("page-notes", listOf(D.notes));
  $("footer").textContent =
    `Made on ${D.created} with nasheval ${D.version}. This file holds all it needs and loads nothing from the network.`;
  const sections = [
    ["leaderboard", "Leaderboard"],
    ["adjusted", "Style"],
    ["groups", "By group"],
    ["payoffs", "Payoffs"],
    ["costs", "Cost"],
    ["heldout", "Held out"],
    ["audit", "Audit"],
    ["trust", "Trust"],
    ["method", "Method"],
  ];
  fill("nav", ...sections.filter(([id]) => !$(id).hidden).map(([id, text]) => el("a", { href: `#${id}`, text })));
}
