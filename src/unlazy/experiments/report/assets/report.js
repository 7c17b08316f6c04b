// SPDX-License-Identifier: Apache-2.0
// Draws the panels of a figure with Vega-Lite, in the colours of the page, and lets the reader hide
// curves, change between logarithmic and linear axes, zoom and hover.
"use strict";

const panels = JSON.parse(document.getElementById("panels").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const hidden = new Set();
const states = panels.map((panel) => ({ x: panel.x.scale, y: panel.y.scale }));

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A dark line would vanish on a dark page: mix it with white.
function shown(color) {
  if (!dark.matches) return color;
  const parts = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  const light = (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]) / 255;
  const share = Math.max(0, 0.55 - light);
  return "#" + parts.map((p) => Math.round(p + (255 - p) * share).toString(16).padStart(2, "0")).join("");
}

const drawable = (value, scale) => value !== null && (scale !== "log" || value > 0);

// The points that can be drawn, with the part of the curve that each is of: gaps break the line.
function rows(curve, state) {
  const found = [];
  let part = 0;
  (curve.points || []).forEach(([x, y], i) => {
    if (!drawable(x, state.x) || !drawable(y, state.y)) part += 1;
    else found.push({ x, y, i, part, curve: curve.name || "without a name", color: shown(curve.color) });
  });
  return found;
}

// Where the panel was drawn, or, under another scale, what holds all that is shown.
function domain(axis, scale, values) {
  const [low, high] = axis.domain;
  if (scale === axis.scale && drawable(low, scale) && drawable(high, scale)) return [low, high];
  const found = values.filter((value) => drawable(value, scale));
  if (!found.length) return scale === "log" ? [0.1, 1] : [0, 1];
  const [a, b] = [Math.min(...found), Math.max(...found)];
  if (scale === "log") return [a / 1.2, b * 1.2];
  const room = 0.04 * (b - a || 1);
  return [a - room, b + room];
}

function axisOf(axis, type, values) {
  const settings = { title: axis.label || null, grid: true, labelOverlap: true };
  if (axis.ticks) {
    const words = Object.fromEntries(axis.ticks);
    settings.values = axis.ticks.map(([place]) => place);
    settings.labelExpr = `(${JSON.stringify(words)})[datum.value]`;
    settings.labelOverlap = false;
  } else if (type !== "linear") {
    settings.format = "~g";
    settings.tickCount = 6;
  }
  const scale = { type, domain: domain(axis, type, values), nice: false };
  if (type === "symlog") {
    // Matplotlib gives 10/9 of a decade to what is linear, Vega log10(1 + linear / constant).
    scale.constant = axis.linear / (10 ** (10 / 9) - 1);
    settings.values = symlogTicks(scale.domain, axis.linear);
  } else if (type === "linear") scale.zero = false;
  if (settings.values) settings.tickCount = settings.values.length; // of more, Vega leaves half out
  return { type: "quantitative", scale, axis: settings };
}

// Zero, and powers of ten from where the scale is no longer linear; Vega has equal steps.
function symlogTicks([low, high], linear) {
  const ticks = [0];
  const first = Math.ceil(Math.log10(linear) - 1e-9);
  const last = Math.floor(Math.log10(Math.max(-low, high, linear)) + 1e-9);
  for (let power = first; power <= last; power += Math.ceil((last - first + 1) / 6)) ticks.push(10 ** power, -(10 ** power));
  return ticks.filter((tick) => low <= tick && tick <= high).sort((a, b) => a - b);
}

const lineOf = (curve, stroke) => ({ type: "line", ...stroke, ...(curve.step ? { interpolate: curve.step } : {}) });

function curveLayers(curve, state, x, y) {
  const color = shown(curve.color);
  const stroke = { color, strokeWidth: curve.width, strokeDash: curve.dash, clip: true };
  if (curve.horizontal !== undefined) {
    if (!drawable(curve.horizontal, state.y)) return [];
    return [{ data: { values: [{ y: curve.horizontal }] }, mark: { type: "rule", ...stroke }, encoding: { y: { field: "y", ...y } } }];
  }
  if (curve.vertical !== undefined) {
    if (!drawable(curve.vertical, state.x)) return [];
    return [{ data: { values: [{ x: curve.vertical }] }, mark: { type: "rule", ...stroke }, encoding: { x: { field: "x", ...x } } }];
  }
  const encoding = { x: { field: "x", ...x }, y: { field: "y", ...y } };
  const data = { values: rows(curve, state) };
  const layers = [];
  const bars = (curve.bars || []).filter(([a, low, high]) =>
    drawable(a, state.x) && drawable(high, state.y) && low !== null);
  if (bars.length) {
    const floor = y.scale.domain[0];
    layers.push({
      data: { values: bars.map(([a, low, high]) => ({ x: a, y: state.y === "log" ? Math.max(low, floor) : low, high })) },
      mark: { type: "rule", color, strokeWidth: 1.2, clip: true },
      encoding: { ...encoding, y2: { field: "high" } },
    });
  }
  if (curve.line) layers.push({ data, mark: lineOf(curve, stroke), encoding: { ...encoding, order: { field: "i" }, detail: { field: "part", type: "nominal" } } });
  if (curve.marker) layers.push({ data, mark: { type: "point", filled: true, size: 22, color, clip: true, opacity: 0.85 }, encoding });
  return layers;
}

function bandLayers(panel, state, x, y) {
  return panel.bands.filter((band) => !band.name || !hidden.has(band.name)).map((band) => {
    const mark = { type: "area", color: shown(band.color), opacity: Math.max(band.opacity, 0.12), clip: true };
    const floor = y.scale.domain[0];
    const low = (value) => (state.y === "log" ? Math.max(value, floor) : value);
    if (band.strip) {
      const [start, end] = x.scale.domain;
      const values = [start, end].map((at) => ({ x: at, y: low(band.strip[0]), high: band.strip[1] }));
      return { data: { values }, mark, encoding: { x: { field: "x", ...x }, y: { field: "y", ...y }, y2: { field: "high" } } };
    }
    const values = band.between
      .filter(([at, least, high]) => drawable(at, state.x) && drawable(high, state.y) && least !== null)
      .map(([at, least, high]) => ({ x: at, y: low(least), high }));
    return { data: { values }, mark, encoding: { x: { field: "x", ...x }, y: { field: "y", ...y }, y2: { field: "high" } } };
  });
}

function specOf(panel, state) {
  const curves = panel.curves.filter((curve) => !hidden.has(curve.name) || !curve.name);
  const points = curves.flatMap((curve) => rows(curve, state));
  const all = panel.curves.flatMap((curve) => curve.points || []);
  const levels = panel.curves.flatMap((curve) => (curve.horizontal === undefined ? [] : [curve.horizontal]));
  const x = axisOf(panel.x, state.x, all.map((point) => point[0]));
  const y = axisOf(panel.y, state.y, all.map((point) => point[1]).concat(levels));
  const tooltip = [
    { field: "curve", type: "nominal", title: "curve" },
    { field: "x", title: panel.x.label || "x", format: ".5~g" },
    { field: "y", title: panel.y.label || "y", format: ".5~g" },
  ];
  const hover = {
    data: { values: points },
    params: [
      { name: "hover", select: { type: "point", on: "pointerover", nearest: true, clear: "pointerout" } },
      { name: "zoom", select: "interval", bind: "scales" },
    ],
    mark: { type: "point", filled: true, size: 70, clip: true },
    encoding: {
      x: { field: "x", ...x },
      y: { field: "y", ...y },
      color: { field: "color", type: "nominal", scale: null },
      opacity: { condition: { param: "hover", empty: false, value: 1 }, value: 0 },
      tooltip,
    },
  };
  const words = panel.texts
    .filter((text) => drawable(text.x, state.x) && drawable(text.y, state.y))
    .map((text) => ({
      data: { values: [text] },
      mark: { type: "text", align: text.align, dx: text.align === "right" ? -3 : 3, dy: -7, fontSize: 11, color: css("--soft"), clip: true },
      encoding: { x: { field: "x", ...x }, y: { field: "y", ...y }, text: { field: "text" } },
    }));
  return {
    width: "container",
    height: 290,
    background: null,
    config: {
      aria: false, // the panel has a description of its own
      font: "system-ui, sans-serif",
      view: { stroke: null },
      axis: {
        labelColor: css("--ink"), titleColor: css("--ink"), gridColor: css("--line"), domainColor: css("--soft"),
        tickColor: css("--soft"), titleFontWeight: "normal", titleFontSize: 12, labelFontSize: 11,
      },
    },
    layer: [...bandLayers(panel, state, x, y), ...curves.flatMap((curve) => curveLayers(curve, state, x, y)), ...words, hover],
  };
}

// The nearest point is found by cells around the points, and a point is the datum of its cell. Vega-Lite
// minds that in the texts of numbers, but not in those of names.
function mended(spec) {
  for (const mark of spec.marks.filter((one) => one.name && one.name.endsWith("voronoi"))) {
    const tooltip = mark.encode.update.tooltip;
    tooltip.signal = tooltip.signal.replaceAll('datum["curve"]', 'datum.datum["curve"]');
  }
  return spec;
}

async function draw(index) {
  const place = document.getElementById(`chart-${index}`);
  const theme = dark.matches ? "dark" : "light";
  try {
    await vegaEmbed(place, specOf(panels[index], states[index]), {
      actions: false, renderer: "svg", tooltip: { theme }, patch: mended,
    });
    place.dataset.drawn = String(Number(place.dataset.drawn || 0) + 1);
  } catch (error) {
    place.textContent = "This panel cannot be drawn here; the figure as drawn is below.";
    throw error;
  }
}

const drawAll = () => panels.forEach((_, index) => draw(index));

function toggle(text, pressed, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  if (pressed !== null) button.setAttribute("aria-pressed", String(pressed));
  button.addEventListener("click", () => act(button));
  return button;
}

function described(panel) {
  const names = [...new Set(panel.curves.map((curve) => curve.name).filter(Boolean))].join(", ");
  return `${panel.title} ${panel.y.label || "values"} against ${panel.x.label || "places"}. ${names}`.trim();
}

function buildPanel(panel, index) {
  const box = document.createElement("div");
  box.className = "panel";
  if (panel.title) {
    const title = document.createElement("h3");
    title.textContent = panel.title;
    box.append(title);
  }
  const buttons = document.createElement("div");
  buttons.className = "buttons";
  for (const axis of ["x", "y"]) {
    if (panel[axis].ticks) continue; // places with words are no quantities
    const other = panel[axis].scale === "linear" ? "log" : panel[axis].scale;
    buttons.append(toggle(`${other} ${axis}`, states[index][axis] === other, (button) => {
      states[index][axis] = states[index][axis] === other ? "linear" : other;
      button.setAttribute("aria-pressed", String(states[index][axis] === other));
      draw(index);
    }));
  }
  buttons.append(toggle("reset zoom", null, () => draw(index)));
  const chart = document.createElement("div");
  chart.className = "chart";
  chart.id = `chart-${index}`;
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", described(panel));
  box.append(buttons, chart);
  return box;
}

function swatch(curve) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 30 12");
  svg.setAttribute("aria-hidden", "true");
  const part = document.createElementNS(svg.namespaceURI, curve.line === false ? "circle" : "line");
  const settings = curve.line === false
    ? { cx: 15, cy: 6, r: 3.5, fill: shown(curve.color) }
    : { x1: 1, x2: 29, y1: 6, y2: 6, stroke: shown(curve.color), "stroke-width": 2.5, "stroke-dasharray": curve.dash.join(" ") };
  for (const [name, value] of Object.entries(settings)) part.setAttribute(name, value);
  svg.append(part);
  return svg;
}

function buildLegend() {
  const legend = document.getElementById("legend");
  const named = new Map();
  for (const curve of panels.flatMap((panel) => panel.curves)) {
    if (curve.name && !named.has(curve.name)) named.set(curve.name, curve);
  }
  legend.replaceChildren();
  for (const [name, curve] of named) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !hidden.has(name);
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(name);
      else hidden.add(name);
      drawAll();
    });
    label.append(box, swatch(curve), name);
    legend.append(label);
  }
}

document.getElementById("figure").append(...panels.map(buildPanel));
buildLegend();
drawAll();
dark.addEventListener("change", () => { buildLegend(); drawAll(); });
