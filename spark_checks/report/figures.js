  var dark = matchMedia("(prefers-color-scheme: dark)");
  function themed(layout, night) {
    var ink = night ? "#e6e9ed" : "#1b1f24", line = night ? "#343b44" : "#d9dee4";
    var narrow = innerWidth < 600;
    var result = Object.assign({}, layout, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui, sans-serif", size: narrow ? 11 : 12 },
      margin: { l: narrow ? 58 : 74, r: narrow ? 8 : 16, t: 84, b: 48 }, hovermode: layout.hovermode || "x unified",
      hoverlabel: { bgcolor: night ? "#1d2228" : "#fff" },
      legend: { orientation: "h", x: 0, y: 0, yref: "container", yanchor: "bottom" } });
    Object.keys(layout).forEach(function (key) {
      if (/^[xy]axis/.test(key)) {
        result[key] = Object.assign({ gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true },
          layout[key]);
      }
    });
    result.margin.b = 76;
    if (!(layout.annotations || []).length) { result.margin.t = 16; }
    return result;
  }
  function draw(night) {
    Object.keys(places).forEach(function (id) {
      if (!document.getElementById(id)) { return; }
      Plotly.react(id, places[id].data, themed(places[id].layout, night), { responsive: true, displaylogo: false,
        displayModeBar: false });
    });
  }
  draw(dark.matches);
  dark.addEventListener("change", function () { draw(dark.matches); });
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (one) { one.open = true; });
    draw(false);
  });
  addEventListener("afterprint", function () { draw(dark.matches); });
