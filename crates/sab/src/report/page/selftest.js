// With #selftest the page tries its own interactions and says what happened, for the tests that open it in a browser.

const broken = [];
window.addEventListener("error", (event) => broken.push(event.message));
window.addEventListener("unhandledrejection", (event) => broken.push(String(event.reason)));

async function selftest({ runs, curves, attention }) {
  const found = {};
  const expect = (holds, what) => {
    if (!holds) throw new Error(what);
  };
  const press = (element) => element.click();
  const pointer = (element, kind, x, y) => {
    const box = element.getBoundingClientRect();
    element.dispatchEvent(new PointerEvent(kind, { bubbles: true, clientX: box.left + x, clientY: box.top + y }));
  };
  const key = (element, name) => element.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const mouse = (element, kind, x, y) => {
    const box = element.getBoundingClientRect();
    element.dispatchEvent(new MouseEvent(kind, { bubbles: true, movementX: 1, clientX: box.left + x, clientY: box.top + y }));
  };
  // uPlot draws at the end of a task.
  const settle = () => new Promise((done) => setTimeout(done, 0));
  const paths = () => curves.charts.reduce((sum, chart) => sum + chart.lines.length, 0);
  const drawn = async () => {
    await settle();
    return [...document.querySelectorAll(".chart canvas")].map((canvas) => canvas.toDataURL()).join("");
  };

  const tryCurves = async () => {
    found.charts = document.querySelectorAll(".chart canvas").length;
    found.paths = paths();
    const before = await drawn();
    expect(curves.charts.every((chart) => chart.plot.status === 1), "a chart is not drawn");
    const box = document.querySelector(".legend input");
    press(box);
    expect(paths() < found.paths && await drawn() !== before, "switching a run off leaves its lines");
    press(box);
    expect(await drawn() === before, "switching a run on again does not bring its lines back");
    const choose = async (name, value) => {
      const last = await drawn();
      press(document.querySelector(`input[name="${name}"][value="${value}"]`));
      return await drawn() !== last;
    };
    await choose("y-axis", "linear");
    expect(await choose("y-axis", "log"), "a logarithmic axis draws what a linear one does");
    found.log = curves.charts.filter((chart) => chart.log).length;
    expect(await choose("x-axis", "seconds"), "time draws what updates do");
    await choose("x-axis", "update");
    await choose("y-axis", "fits");
    expect(await drawn() === before, "the axes do not come back");

    const { tip, plot } = curves.charts[0];
    mouse(plot.over, "mousemove", plot.over.clientWidth / 2, plot.over.clientHeight / 2);
    await settle();
    expect(!tip.hidden && /update/.test(tip.textContent), "pointing at a chart shows no values");
    found.tip = tip.textContent.length;
    mouse(plot.over, "mouseleave", -20, -20);
    key(plot.over, "Escape");
    await settle();
    expect(tip.hidden, "Escape leaves the values");
    key(plot.over, "ArrowRight");
    await settle();
    expect(!tip.hidden, "an arrow key shows no values");
    key(plot.over, "Escape");

    const [from, to] = [plot.over.clientWidth * 0.25, plot.over.clientWidth * 0.75];
    for (const [kind, x] of [["mouseenter", from], ["mousemove", from], ["mousedown", from], ["mousemove", to], ["mouseup", to]]) mouse(plot.over, kind, x, 50);
    await settle();
    expect(await drawn() !== before, "dragging does not zoom");
    const { min, max } = curves.charts.at(-1).plot.scales.x;
    found.zoom = Math.round((100 * (max - min)) / plot.scales.x.max);
    mouse(curves.charts[0].plot.over, "dblclick", from, 50);
    await settle();
    expect(await drawn() === before, "a double click does not zoom out");
  };

  const tryAttention = () => {
    const { state, picture, panel, slider, told, zoomed, play, svg } = attention;
    const move = (value) => {
      slider.value = value;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    };
    move(0);
    const first = told.textContent;
    move(slider.max);
    expect(slider.max === "0" || told.textContent !== first, "the slider does not move through training");
    found.cells = picture.cells;
    const middle = Math.ceil(picture.last / 2);
    pointer(picture.canvas, "pointermove", 60, picture.rowOf(middle));
    // Rows of long sequences are thinner than a pixel, and a pointer may be rounded to one.
    const near = Math.abs(state.hover - middle) <= 3 ? state.hover : middle;
    expect(panel.textContent.includes(`Step ${near}`), `pointing at step ${middle} shows ${panel.textContent}`);
    found.arcs = svg.querySelectorAll(".arc").length;
    key(picture.canvas, "ArrowDown");
    expect(panel.textContent.includes(`Step ${Math.min(near + 1, picture.last)}`), "the arrow keys do not choose a step");
    pointer(picture.canvas, "click", 60, picture.rowOf(middle));
    pointer(picture.canvas, "pointermove", 60, picture.rowOf(picture.last));
    found.pinned = state.pinned;
    expect(Math.abs(state.pinned - middle) <= 3 && panel.textContent.includes(`Step ${state.pinned}`), "a pinned step does not stay");
    key(picture.canvas, "ArrowLeft");
    expect(state.at === Math.max(0, Number(slider.max) - 1), "an arrow key does not move through training");
    press(zoomed);
    expect(picture.first > 1 || picture.last <= 20, "the answers are not zoomed to");
    press(zoomed);
    press(play);
    expect(state.timer !== null, "it does not play");
    press(play);
    expect(state.timer === null, "it does not pause");
    key(picture.canvas, "Escape");
    move(slider.max);
  };

  const trySettings = () => {
    const details = document.querySelector("details");
    details.open = true;
    details.dispatchEvent(new Event("toggle"));
    found.settings = details.querySelectorAll("dt").length;
    expect(found.settings > 0, "there are no settings");
    details.open = false;
  };

  const told = make("p", { id: "selftest", role: "status" });
  document.querySelector("main").prepend(told);
  try {
    expect(document.querySelectorAll(".runs-table tbody tr:not(.group)").length === runs.length, "a run has no row");
    if (curves.charts.length && paths()) await tryCurves();
    if (attention) tryAttention();
    if (runs.length) trySettings();
    found.code = document.querySelectorAll(".about code").length;
    expect(broken.length === 0, broken.join("; "));
    told.textContent = `ok ${Object.entries(found).map(([name, value]) => `${name}=${value}`).join(" ")}`;
  } catch (why) {
    told.textContent = `failed: ${why.message}`;
  }
}
