"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = getComputedStyle(document.documentElement);
  const colour = (name) => root.getPropertyValue(name).trim();
  const series = (place) => colour(`--s${(place % 8) + 1}`);
  const short = (value) =>
    value == null ? "" : Math.abs(value) >= 100 ? value.toLocaleString("en", { maximumFractionDigits: 0 })
      : value.toLocaleString("en", { maximumSignificantDigits: 3 });

  // Charts.

  const percent = (nines) => {
    const share = 100 * (1 - 10 ** -nines);
    return share < 90 ? share.toFixed(0) : share.toFixed(Math.max(Math.ceil(nines) - 2, 0));
  };

  function draw(place) {
    const chart = data.charts.find((one) => one.id === place.dataset.chart);
    if (!chart || !chart.data[0].length) return;
    const isPercentiles = chart.kind === "percentiles";
    const top = chart.data[0][chart.data[0].length - 1];
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: colour("--soft"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
    const few = chart.data[0].length < 40;
    const options = {
      width: place.clientWidth || 480,
      height: 240,
      scales: { x: { time: false, ...(isPercentiles ? { range: [0, top || 1] } : {}) }, y: { range: (u, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
      cursor: { points: { size: 6 } },
      series: [
        { label: chart.xTitle, value: (u, v) => (v == null ? "" : isPercentiles ? `p${v >= top ? 100 : percent(v)}` : short(v)) },
        ...chart.labels.map((label, at) => ({
          label, stroke: series(at), width: 1.6, spanGaps: chart.kind !== "time", points: { show: few, size: 5 },
          value: (u, v) => (v == null ? "–" : `${short(v)} ${chart.yTitle}`),
        })),
      ],
      axes: [
        { ...axis, label: chart.xTitle, labelSize: 18, labelFont: axis.font, size: 34,
          ...(isPercentiles ? { splits: () => [0, 0.30103, 1, 2, 3, 4, 5].filter((x) => x <= top), values: (u, splits) => splits.map((x) => `p${percent(x)}`) } : {}) },
        { ...axis, label: chart.yTitle, labelSize: 18, labelFont: axis.font, size: 56, values: (u, splits) => splits.map(short) },
      ],
    };
    const plot = new uPlot(options, chart.data, place);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 240 })).observe(place);
  }

  // What is far below is drawn when it comes near: the page is there at once.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        near.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "600px" });
  document.querySelectorAll("[data-chart]").forEach((place) => near.observe(place));
  window.addEventListener("beforeprint", () => document.querySelectorAll("[data-chart]:empty").forEach(draw));

  // The stream view.

  const list = document.getElementById("streams");
  if (!list) return;
  const detail = document.getElementById("stream-detail");
  const kinds = data.streams.kinds;
  const kindColours = { text: 1, reasoning: 4, tool: 2, refusal: 6, role: 8, usage: 5, finish: 3, done: 3, error: 6, other: 8 };
  const ofKind = (kind) => colour(`--s${kindColours[kinds[kind]] || 8}`);
  const element = (name, attributes = {}, text = "") => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const shape = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text != null) made.textContent = text;
    return made;
  };

  data.streams.streams.forEach((stream, place) => {
    const ttft = stream.ttft_ms == null ? "-" : `${short(stream.ttft_ms)} ms`;
    const name = `${stream.seq}${stream.attempt > 1 ? `.${stream.attempt}` : ""}  ${stream.outcome}  ttft ${ttft}`;
    list.append(element("option", { value: place }, stream.class ? `${name}  ${stream.class}` : name));
  });

  function timeline(stream) {
    const frames = stream.frames || [];
    const width = Math.max(detail.clientWidth, 300), left = 12, right = width - 12, base = 96;
    const marks = Object.entries(stream.moments);
    const last = Math.max(...marks.map(([, at]) => at), ...frames.map(([at]) => at), 0.001);
    const x = (at) => left + ((right - left) * at) / last;
    const svg = shape("svg", { viewBox: `0 0 ${width} 170`, role: "img", "aria-label": "Frames on a time axis from the moment the request was sent" });
    svg.append(shape("line", { class: "axis", x1: left, x2: right, y1: base, y2: base }));
    const most = Math.max(...frames.map(([, size]) => size), 1);
    for (const [at, size, kind] of frames) {
      const tall = 6 + 40 * Math.sqrt(size / most);
      svg.append(shape("line", { x1: x(at), x2: x(at), y1: base, y2: base - tall, stroke: ofKind(kind), "stroke-width": 1.4 }));
    }
    const ticks = width < 500 ? 2 : 4;
    for (let tick = 0; tick <= ticks; tick += 1) {
      const at = (last * tick) / ticks;
      svg.append(shape("text", { x: x(at), y: base + 14, "text-anchor": tick === 0 ? "start" : tick === ticks ? "end" : "middle" }, `${short(at)} ms`));
    }
    const wanted = ["first output (ttft)", "first text", "last output", "end"].filter((name) => stream.moments[name] != null);
    wanted.forEach((name, place) => {
      const at = stream.moments[name];
      const y = base + 30 + 11 * place;
      const end = x(at) > width * 0.6;
      svg.append(shape("line", { class: "mark", x1: x(at), x2: x(at), y1: base - 56, y2: y, stroke: series(place + 1), "stroke-dasharray": "3 3" }));
      svg.append(shape("text", { x: x(at) + (end ? -4 : 4), y: y + 3, "text-anchor": end ? "end" : "start" }, `${name} ${short(at)} ms`));
    });
    return svg;
  }

  function show(place) {
    const stream = data.streams.streams[place];
    if (!stream) return;
    const words = [stream.outcome, stream.detail, stream.status && stream.status !== 200 ? `status ${stream.status}` : "", stream.finish_reason ? `finish ${stream.finish_reason}` : ""];
    const tokens = stream.output_tokens == null ? "no tokens counted" : `${stream.tokens_approximate ? "about " : ""}${stream.output_tokens} output tokens`;
    const facts = [stream.format || "no format seen", stream.model || "", tokens, stream.itl_ms == null ? "no itl" : `itl ${short(stream.itl_ms)} ms`, stream.e2e_ms == null ? "no e2e" : `e2e ${short(stream.e2e_ms)} ms`];
    detail.replaceChildren(
      element("h3", {}, `Request ${stream.seq}${stream.attempt > 1 ? `, attempt ${stream.attempt}` : ""}: ${words.filter(Boolean).join(", ")}`),
      element("p", { class: "note" }, facts.filter(Boolean).join(" · ")),
      timeline(stream),
    );
    const seen = [...new Set((stream.frames || []).map(([, , kind]) => kind))];
    const key = element("div", { class: "key" });
    for (const kind of seen) {
      const entry = element("span");
      const dot = element("i", { class: "dot" });
      dot.style.background = ofKind(kind);
      entry.append(dot, kinds[kind]);
      key.append(entry);
    }
    detail.append(key);
    if (!stream.frames || !stream.frames.length) {
      detail.append(element("p", { class: "note" }, "No frame came."));
      return;
    }
    const table = element("table");
    const head = element("thead");
    const row = element("tr");
    for (const [name, side] of [["frame", "n"], ["arrival, ms", "n"], ["since the one before", "n"], ["bytes", "n"], ["kind", ""]]) row.append(element("th", { scope: "col", class: side }, name));
    head.append(row);
    const body = element("tbody");
    let before = 0;
    stream.frames.forEach(([at, size, kind], number) => {
      const line = element("tr");
      for (const text of [number + 1, at.toFixed(3), (at - before).toFixed(3), size]) line.append(element("td", {}, text));
      line.append(element("td", { class: "t" }, kinds[kind]));
      body.append(line);
      before = at;
    });
    table.append(head, body);
    const scroller = element("div", { class: "frames", tabindex: "0", role: "region", "aria-label": "Frames of this request" });
    scroller.append(table);
    detail.append(scroller);
    if (stream.more) detail.append(element("p", { class: "note" }, `and ${stream.more} more frames`));
  }

  const choose = (place) => {
    list.selectedIndex = place;
    show(place);
  };
  list.addEventListener("change", () => show(list.selectedIndex));
  document.querySelectorAll("[data-stream]").forEach((link) => {
    const place = data.streams.streams.findIndex((one) => `${one.seq}-${one.attempt}` === link.dataset.stream);
    if (place >= 0) link.addEventListener("click", () => choose(place));
  });
  choose(0);
  window.addEventListener("resize", () => show(list.selectedIndex));
})();
