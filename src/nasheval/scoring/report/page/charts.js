// Axes and plots of numbers.
function ticks(low, high, log) {
  if (log) {
    for (const steps of [[1], [1, 3], [1, 2, 5]]) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        for (const step of steps)
          if (step * 10 ** power >= low * 0.999 && step * 10 ** power <= high * 1.001) found.push(step * 10 ** power);
      }
      if (found.length > 2) return found;
    }
  }
  const raw = (high - low) / 5,
    size = 10 ** Math.floor(Math.log10(raw)),
    step = size * [1, 2, 5, 10].find((times) => times * size >= raw * 0.999);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step)
    found.push(Math.abs(value) < step * 1e-6 ? 0 : value);
  return found;
}

// A frame with axes; x and y: {low, high, log, label}. Returns the drawing and the two scales.
function frame(width, height, x, y) {
  const written = ticks(y.low, y.high, y.log).map((value) => (y.format ? y.format(value) : brief(value)).length);
  const box = { left: 32 + 7 * Math.max(...written), right: width - 14, top: 10, bottom: height - 44 };
  const scale = (axis, from, to) => (value) => {
    const at = axis.log
      ? Math.log(Math.max(value, axis.low) / axis.low) / Math.log(axis.high / axis.low)
      : (value - axis.low) / (axis.high - axis.low);
    return from + (to - from) * at;
  };
  const X = scale(x, box.left, box.right),
    Y = scale(y, box.bottom, box.top);
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" },
    ...ticks(y.low, y.high, y.log).flatMap((value) => [
      svg("line", { class: "rule", x1: box.left, x2: box.right, y1: Y(value), y2: Y(value) }),
      svg("text", {
        x: box.left - 8,
        y: Y(value) + 4,
        "text-anchor": "end",
        text: y.format ? y.format(value) : brief(value),
      }),
    ]),
    ...ticks(x.low, x.high, x.log).flatMap((value) => [
      svg("line", { class: "axis", x1: X(value), x2: X(value), y1: box.bottom, y2: box.bottom + 4 }),
      svg("text", { x: X(value), y: box.bottom + 18, "text-anchor": "middle", text: brief(value) }),
    ]),
    svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    svg("text", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle", text: x.label }),
    svg("text", {
      x: 0,
      y: 0,
      "text-anchor": "middle",
      transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`,
      text: y.label,
    }),
  );
  return { drawing, X, Y, box };
}

function calibrationPlot(id, bins, what, bound) {
  const rows = bins.predicted.map((predicted, b) => ({
    predicted,
    observed: bins.observed[b],
    error: bins.error[b],
    count: bins.count[b],
  }));
  const columns = [
    { label: "predicted", value: (row) => row.predicted, cell: (row) => brief(row.predicted) },
    { label: "observed", value: (row) => row.observed, cell: (row) => brief(row.observed) },
    { label: "standard error", value: (row) => row.error, cell: (row) => brief(row.error) },
    { label: "count", value: (row) => row.count, cell: (row) => whole(row.count) },
  ];
  const all = rows.flatMap((row) => [row.predicted, row.observed - 2 * row.error, row.observed + 2 * row.error]);
  const least = Math.min(...rows.map((row) => Math.min(row.predicted, row.observed))),
    most = Math.max(...all);
  const log = bound === "log" && least > 0 && most / least > 20;
  const pad = 0.06 * (most - Math.min(...all)) || 0.05;
  const axis = log ? { low: least / 1.3, high: most * 1.3, log } : { low: Math.min(...all) - pad, high: most + pad };
  const draw = (width) => {
    const { drawing, X, Y } = frame(
      width,
      Math.min(330, Math.max(260, width * 0.8)),
      { ...axis, label: `predicted ${what}` },
      { ...axis, label: `observed ${what}` },
    );
    drawing.setAttribute(
      "aria-label",
      `Predicted against observed ${what} in ${rows.length} bins; the numbers are in the table below.`,
    );
    drawing.append(
      svg("line", { class: "guide", x1: X(axis.low), y1: Y(axis.low), x2: X(axis.high), y2: Y(axis.high) }),
      ...rows.flatMap((row) => [
        svg("line", {
          class: "whisker",
          x1: X(row.predicted),
          x2: X(row.predicted),
          y1: Y(row.observed - 2 * row.error),
          y2: Y(row.observed + 2 * row.error),
        }),
        svg("circle", {
          class: "mark",
          cx: X(row.predicted),
          cy: Y(row.observed),
          r: 5,
          "data-tip": `predicted ${brief(row.predicted)}\nobserved ${brief(row.observed)} \u00b1 ${brief(2 * row.error)}\n${whole(row.count)} predictions`,
        }),
      ]),
    );
    return drawing;
  };
  return { draw, table: numbers(`${id}-numbers`, `Predicted and observed ${what}`, columns, rows) };
}

// Counts in bins even in their logarithm; a first bin that starts at 0 holds zeros. line: {at, name} or null.
function histogramPlot(histogram, label, line, noun) {
  const zeros = histogram.edges[0] === 0 ? 1 : 0,
    edges = histogram.edges.slice(zeros),
    count = histogram.count.slice(zeros);
  const none = zeros ? histogram.count[0] : 0;
  const rest = none
    ? el("p", { class: "small dim", text: `${plural(none, noun.replace(/s$/, ""))} never compared.` })
    : null;
  if (!count.length) return () => rest ?? "";
  return (width) => {
    const high = Math.max(...count, 1);
    const low = Math.min(edges[0] ?? 1, line?.at ?? Infinity),
      top = Math.max(edges.at(-1) ?? 1, line?.at ?? 0);
    const spread = top / low < 1.5 ? 1.6 : 1.06;
    const { drawing, X, Y, box } = frame(
      width,
      260,
      { low: low / spread, high: top * spread, log: true, label },
      { low: 0, high, label: noun, format: (value) => (Number.isInteger(value) ? whole(value) : "") },
    );
    drawing.setAttribute("aria-label", `How many ${noun} by ${label}.`);
    drawing.append(
      ...count
        .map((held, b) =>
          held
            ? svg("rect", {
                class: "column",
                x: X(edges[b]) + 0.5,
                width: Math.max(2, X(edges[b + 1]) - X(edges[b]) - 1),
                y: Y(held),
                height: Y(0) - Y(held),
                "data-tip": `${brief(edges[b])} to ${brief(edges[b + 1])}\n${whole(held)} ${noun}`,
              })
            : null,
        )
        .filter(Boolean),
    );
    if (line) {
      const left = X(line.at) > width / 2;
      drawing.append(
        svg("line", { class: "bound", x1: X(line.at), x2: X(line.at), y1: box.top, y2: box.bottom }),
        svg("text", {
          class: "bound-name",
          x: X(line.at) + (left ? -5 : 5),
          y: box.top + 10,
          "text-anchor": left ? "end" : "start",
          text: line.name,
        }),
      );
    }
    return rest ? [drawing, rest] : drawing;
  };
}

function frontierPlot() {
  const line = D.frontier.filter((point) => point.kind === "price"),
    agents = D.frontier.filter((point) => point.kind === "agent"),
    own = D.frontier.filter((point) => point.kind === "policy");
  const costs = D.frontier.map((point) => point.cost),
    least = Math.min(...costs),
    most = Math.max(...costs),
    log = least > 0 && most / least > 30;
  const x = log
    ? { low: least / 1.15, high: most * 1.15, log, label: "expected cost of a context (log scale)" }
    : {
        low: least - 0.06 * (most - least || 1),
        high: most + 0.06 * (most - least || 1),
        label: "expected cost of a context",
      };
  const y = {
    low: 0,
    high: 1.06 * Math.max(...D.frontier.map((point) => point.exploitability), 0.01),
    label: "estimated exploitability",
  };
  const tip = (point) =>
    `${point.name}\ncost ${brief(point.cost)}\nestimated exploitability ${fixed(point.exploitability, 3)}`;
  return (width) => {
    const { drawing, X, Y } = frame(width, Math.min(440, Math.max(300, width * 0.5)), x, y);
    drawing.setAttribute(
      "aria-label",
      "Expected cost against estimated exploitability; the numbers are in the table below.",
    );
    drawing.append(
      svg("polyline", {
        class: "trace",
        points: line.map((point) => `${X(point.cost)},${Y(point.exploitability)}`).join(" "),
      }),
      ...line.map((point) =>
        svg("circle", {
          class: "mark",
          cx: X(point.cost),
          cy: Y(point.exploitability),
          r: 4.5,
          "data-tip": tip(point),
        }),
      ),
    );
    const taken = [...agents, ...own].map((point) => [
      X(point.cost) - 6,
      Y(point.exploitability) - 6,
      X(point.cost) + 6,
      Y(point.exploitability) + 6,
    ]);
    for (const point of [...agents].sort((a, b) => a.exploitability - b.exploitability)) {
      const [cx, cy] = [X(point.cost), Y(point.exploitability)],
        name = short(point.name, 22),
        wide = 6.4 * name.length + 12,
        left = cx + wide > width - 10;
      drawing.append(svg("path", { class: "hollow", d: `M${cx},${cy - 6}l6,6l-6,6l-6,-6z`, "data-tip": tip(point) }));
      const area = [left ? cx - wide : cx + 7, cy - 8, left ? cx - 7 : cx + wide, cy + 8];
      if (
        area[0] < 50 ||
        taken.some((other) => area[0] < other[2] && other[0] < area[2] && area[1] < other[3] && other[1] < area[3])
      )
        continue;
      taken.push(area);
      drawing.append(
        svg("text", {
          class: "name",
          x: cx + (left ? -10 : 10),
          y: cy + 4,
          "text-anchor": left ? "end" : "start",
          text: name,
        }),
      );
    }
    for (const point of own) {
      const [cx, cy] = [X(point.cost), Y(point.exploitability)];
      drawing.append(
        svg("rect", { class: "mark", x: cx - 6, y: cy - 6, width: 12, height: 12, "data-tip": tip(point) }),
      );
    }
    return [
      drawing,
      el(
        "div",
        { class: "key" },
        el("span", {}, "\u25cf equilibrium at a cost weight"),
        el("span", {}, "\u25c7 one agent everywhere"),
        own.length ? el("span", {}, "\u25a0 this model") : null,
      ),
    ];
  };
}
