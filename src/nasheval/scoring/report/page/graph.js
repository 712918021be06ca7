// Who is certainly preferred to whom: agents on a circle, an arrow from the preferred one, cycles in orange.
function preferenceGraph(view, picked) {
  const follows = (cycle, a, b) => cycle.some((agent, i) => agent === a && cycle[(i + 1) % cycle.length] === b);
  const cycles = picked === null ? view.preferences.cycles : [view.preferences.cycles[picked]];
  return (width) => {
    const names = view.preferences.agents.map((agent) => short(D.agents[agent], width < 460 ? 13 : 24));
    const margin = Math.min(0.3 * width, 7 * Math.max(4, ...names.map((name) => name.length)) + 14);
    const radius = Math.max(70, Math.min(170, width / 2 - margin)),
      height = 2 * radius + 66,
      cx = width / 2,
      cy = height / 2;
    const angle = (index) => (2 * Math.PI * index) / view.preferences.agents.length - Math.PI / 2;
    const at = new Map(
      view.preferences.agents.map((agent, index) => [
        agent,
        [cx + radius * Math.cos(angle(index)), cy + radius * Math.sin(angle(index))],
      ]),
    );
    const drawing = svg(
      "svg",
      {
        class: "graph",
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        role: "img",
        "aria-label": graphInWords(view),
      },
      svg("defs", {}, arrow("arrow", "var(--edge)"), arrow("arrow-cycle", "var(--warm)")),
    );
    const inCycle = (edge) => cycles.some((cycle) => follows(cycle, edge[0], edge[1]));
    for (const edge of [...view.preferences.edges].sort((a, b) => inCycle(a) - inCycle(b)))
      drawing.append(arrowLine(edge, at, cx, cy, inCycle(edge), picked !== null));
    view.preferences.agents.forEach((agent, index) => {
      const [x, y] = at.get(agent),
        cosine = Math.cos(angle(index)),
        sine = Math.sin(angle(index)),
        winner = view.winners.includes(agent);
      const anchor = Math.abs(cosine) < 0.25 ? "middle" : cosine > 0 ? "start" : "end";
      const tip = `${D.agents[agent]}\nlottery ${fixed(view.lottery[agent])}, rating ${whole(view.rating[agent])}`;
      drawing.append(
        svg("circle", { class: winner ? "node winner" : "node", cx: x, cy: y, r: 8, "data-tip": tip }),
        svg("text", {
          class: "name",
          x: x + (anchor === "middle" ? 0 : 13 * Math.sign(cosine)),
          y: y + 4 + (anchor === "middle" ? 19 : 8) * sine,
          "text-anchor": anchor,
          text: names[index],
        }),
      );
    });
    return [
      drawing,
      el(
        "div",
        { class: "key" },
        el("span", {}, "\u25cf winner"),
        el("span", {}, "\u25cb other agent"),
        el("span", { text: "arrow: preferred \u2192 less preferred" }),
        view.preferences.n_cycles ? el("span", { text: "orange: part of a cycle" }) : null,
      ),
    ];
  };
}
function arrow(id, colour) {
  return svg(
    "marker",
    {
      id,
      viewBox: "0 0 8 8",
      refX: 7,
      refY: 4,
      markerWidth: 9,
      markerHeight: 9,
      markerUnits: "userSpaceOnUse",
      orient: "auto",
    },
    svg("path", { d: "M0,0L8,4L0,8z", css: { fill: colour } }),
  );
}
function arrowLine([from, to, estimate], at, cx, cy, cycle, others) {
  const [[x1, y1], [x2, y2]] = [at.get(from), at.get(to)];
  const bend = [(x1 + x2) / 2 + 0.14 * (cx - (x1 + x2) / 2), (y1 + y2) / 2 + 0.14 * (cy - (y1 + y2) / 2)];
  const near = (x, y) => {
    const d = Math.hypot(bend[0] - x, bend[1] - y) || 1;
    return [x + (11 * (bend[0] - x)) / d, y + (11 * (bend[1] - y)) / d];
  };
  const [start, end] = [near(x1, y1), near(x2, y2)];
  const tip = `${D.agents[from]} is preferred to ${D.agents[to]}\n${signed(estimate)}`;
  return svg("path", {
    class: cycle ? "edge cycle" : others ? "edge faded" : "edge",
    d: `M${start}Q${bend} ${end}`,
    "marker-end": `url(#${cycle ? "arrow-cycle" : "arrow"})`,
    "data-tip": tip,
  });
}
function graphInWords(view) {
  const beaten = new Map();
  for (const [from, to] of view.preferences.edges) beaten.set(from, [...(beaten.get(from) ?? []), D.agents[to]]);
  const said = [...beaten].map(([from, to]) => `${D.agents[from]} is preferred to ${to.join(", ")}`);
  return said.length ? `${said.join("; ")}.` : "No preference is certain.";
}

// The cycles in words; a button shows one of them alone.
function cycleList(view, picked, pick) {
  if (!view.preferences.n_cycles) return null;
  const name = (cycle) => [...cycle, cycle[0]].map((agent) => D.agents[agent]).join(" \u2192 ");
  const drawable = (cycle) => cycle.every((agent) => view.preferences.agents.includes(agent));
  const items = view.preferences.cycles.map((cycle, index) =>
    el(
      "li",
      {},
      drawable(cycle)
        ? el("button", {
            type: "button",
            "aria-pressed": String(index === picked),
            text: name(cycle),
            onclick: () => pick(index === picked ? null : index),
          })
        : el("span", { class: "small", text: name(cycle) }),
    ),
  );
  const rest = view.preferences.n_cycles - view.preferences.cycles.length;
  return el(
    "div",
    {},
    el("ul", { class: "cycles", "aria-label": "Cycles" }, ...items),
    rest > 0 ? el("p", { class: "small dim", text: `and ${whole(rest)} more` }) : null,
  );
}
