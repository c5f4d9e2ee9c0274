// The page of `plainchant watch`. Frames come as server-sent events; each has everything that is shown, and the marks of the flow
// that are new. All data becomes text (textContent) or ink on a canvas, never markup.
"use strict";

const $ = (id) => document.getElementById(id);
const WINDOW = 5000; // milliseconds of the flow
const DELAY = 900; // the flow is drawn a little late, so that it moves evenly between frames
const MOST_LANES = 24;
const MOST_MARKS = 4000;
const COLOURS = ["--m1", "--m0", "--good", "--m2", "--bar2", "--faint"];

let frame = null;
let marks = [];
let paused = false;
let clock = { at: 0, shown: 0, speed: 1 };
const drawn = {};

// --- pieces -----------------------------------------------------------------------------------------------------------

function make(tag, style, text) {
  const made = document.createElement(tag);
  if (style) made.className = style;
  if (text !== undefined && text !== null) made.textContent = text;
  return made;
}

function cut(text, most) {
  const told = String(text);
  return told.length <= most ? told : told.slice(0, most - 1) + "…";
}

function number(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 0.001) return ms ? "under 1 µs" : "0";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${number(ms)} ms`;
  if (ms < 120000) return `${number(ms / 1000)} s`;
  return `${number(ms / 60000)} min`;
}

function plural(count, one, many) {
  return `${number(count)} ${count === 1 ? one : many || one + "s"}`;
}

function since(ms) {
  return frame && frame.run ? `+${((ms - frame.run.began) / 1000).toFixed(3)} s` : "";
}

function row(cells, head, style) {
  const made = make("tr", style);
  cells.forEach((cell, place) => {
    const kind = head ? "th" : place === 0 ? "th" : "td";
    const one = make(kind, cell && cell.style, null);
    if (head) one.scope = "col";
    else if (place === 0) one.scope = "row";
    const inside = cell && cell.node ? cell.node : document.createTextNode(cell && cell.text !== undefined ? cell.text : cell);
    one.append(inside);
    made.append(one);
  });
  return made;
}

function table(target, heads, rows) {
  const head = make("thead");
  head.append(row(heads, true));
  const body = make("tbody");
  rows.forEach((each) => body.append(each));
  target.replaceChildren(head, body);
}

// A part of the page is made anew only if what it shows has changed: so text can be selected, and readers are not disturbed.
function part(name, data, render) {
  const key = JSON.stringify(data);
  if (drawn[name] === key) return;
  drawn[name] = key;
  render(data);
}

const n = (text) => ({ text: text, style: "n" });

// --- verdict ----------------------------------------------------------------------------------------------------------

function verdictOf(told) {
  const final = told.final && !told.final.problem ? told.final : null;
  const far = told.so_far;
  if (final) {
    const bad = Object.values(final.properties).reduce((sum, each) => sum + each.violations, 0);
    if (final.verdict === "malformed") return ["violated", "The trace is malformed", cut((final.malformed[0] || {}).problem || "", 300)];
    if (bad) return ["violated", "Violated", `${plural(bad, "violation")}; the whole run was verified, its end included.`];
    if (final.verdict === "unknown") return ["nothing", "Not decided", cut(final.warnings[0] || "", 300)];
    return ["holds", "Everything promised holds", "The whole run was verified, its end included."];
  }
  const problem = told.final && told.final.problem ? ` The end was not verified: ${told.final.problem}` : "";
  if (told.state === "off" || told.state === "failed") return ["nothing", "No verdict", `${told.why}${problem}`];
  if (!far) return ["nothing", "No verdict yet", told.why || "The stream has started; the first events are on their way."];
  const bad = Object.values(far.properties).reduce((sum, each) => sum + each.violations, 0);
  const lag = frame.run ? frame.run.last - far.time / 1e6 : 0;
  const how = `${plural(far.events, "event")} judged${lag > 3000 ? `; what happened in the last ${duration(lag)} is not judged yet` : ""}.`;
  const open = Object.values(far.properties).filter((each) => each.open).length;
  const late = far.late ? ` ${plural(far.late, "comparison")} came too late to be made now.` : "";
  const rest = `${plural(open, "property has", "properties have")} parts that only the end decides.`;
  if (bad) return ["violated", "Violated", `${plural(bad, "violation")} so far; ${how}${problem}`];
  const end = told.ending ? " The run has ended, and is being verified whole." : ` ${rest}`;
  return ["holds", "Holds so far", `${how}${end}${late}${problem}`];
}

function showVerdict(told) {
  part("verdict", verdictOf(told), ([style, word, more]) => {
    const box = $("verdict");
    box.className = `verdict ${style}`;
    box.replaceChildren(make("strong", "", word), make("p", "", cut(more, 600)));
  });
  const final = told.final && !told.final.problem ? told.final : null;
  const found = final ? final.violations : told.so_far ? told.so_far.violations : [];
  const gone = told.so_far ? told.so_far.withdrawn : [];
  part("violations", [found.slice(0, 12), gone], ([list]) => {
    const open = Boolean(document.querySelector("#violations details.more[open]"));
    const articles = list.slice(0, 1).map(story);
    if (list.length > 1) {
      const more = make("details", "more");
      more.open = open;
      const left = found.length > 12 ? `, of which 11 are shown` : "";
      more.append(make("summary", "", `${plural(found.length - 1, "more violation")}${left}`), ...list.slice(1).map(story));
      articles.push(more);
    }
    if (gone.length) articles.push(withdrawn(gone));
    $("violations").replaceChildren(...articles);
  });
  showProperties(told, final);
}

function story(each) {
  const box = make("article");
  const head = make("h3");
  head.append(make("span", "chip violated", each.property), document.createTextNode(each.group ? ` in ${cut(each.group, 60)}` : ""));
  box.append(head, make("p", "sentence", cut(each.sentence, 600)));
  const where = each.events.map((place) => `${place[0]} at index ${place[1]}`).join(", ");
  const when = each.time !== undefined ? `${since(each.time / 1e6)}; ` : "";
  const unless = each.unless && each.unless.length ? ` It is withdrawn if ${each.unless.join(" or ")}: then this is not asked of them.` : "";
  box.append(make("p", "note", `${when}events: ${cut(where, 300)}.${unless}`));
  return box;
}

function withdrawn(list) {
  const box = make("details");
  box.append(make("summary", "", `${plural(list.length, "violation was", "violations were")} withdrawn: of who crashed, left or was late, less is asked`));
  list.slice(0, 12).forEach((each) => box.append(make("p", "note", `${each.property}: ${cut(each.sentence, 400)}. It does not count if ${each.unless.join(" or ")}.`)));
  return box;
}

function showProperties(told, final) {
  const far = told.so_far;
  const names = final ? final.properties : far ? far.properties : {};
  part("properties", [names, Boolean(final), told.state, told.why], () => {
    const rows = Object.entries(names).map(([name, each]) => {
      const [style, word] = final
        ? [each.verdict === "holds" ? "holds" : each.verdict === "violated" ? "violated" : "nothing", each.verdict]
        : { violated: ["violated", "violated"], holds: ["holds", "holds so far"], open: ["open", "open until the end"], nothing: ["nothing", "nothing yet"] }[each.state];
      const later = final ? "" : each.open ? (each.state === "open" ? "all of it" : each.open) : "nothing";
      return row([name, { node: make("span", `chip ${style}`, word) }, n(number(each.cases)), n(number(each.violations)), later]);
    });
    table($("properties"), ["property", "verdict", n("cases"), n("violations"), final ? "" : "what only the end decides"], rows);
    $("properties").hidden = !rows.length;
    $("properties-text").textContent = rows.length
      ? final ? "The whole verification." : "As the trace grows; when all processes have ended, the whole run is verified."
      : told.why || "Nothing is judged yet.";
  });
}

// --- at a glance ------------------------------------------------------------------------------------------------------

const isThere = (process) => process.state === "running" || process.state === "starting";

function card(style, name, value, more) {
  const box = make("div", style);
  box.append(make("dt", "", name), make("dd", "", value), make("dd", "more", more || " "));
  return box;
}

function showCards(run) {
  const there = run.processes.filter(isThere);
  const unseen = run.processes.filter((each) => each.state === "unseen");
  const gone = run.processes.filter((each) => !isThere(each) && each.state !== "unseen");
  const all = there.length + gone.length;
  const bad = gone.filter((each) => each.state === "killed" || each.state === "stopped");
  const blocked = there.filter((each) => each.blocked.length);
  const split = run.groups.filter((group) => group.parts.length > 1);
  const over = frame.source.over && !there.length;
  const missing = bad.length ? `${bad.map((each) => `${each.name} ${each.state}`).join(", ")}` : gone.length ? `${plural(gone.length, "process", "processes")} ended or left` : unseen.length ? `${plural(unseen.length, "member")} not recorded here` : "all that were ever there";
  const parted = split.length ? `${cut(split[0].name, 30)}: members are in ${split[0].parts.length} different views` : `in ${plural(run.groups.length, "group")}`;
  $("cards").replaceChildren(
    card(bad.length ? "bad" : "good", over ? "Ended in good order" : "Processes there", `${over ? gone.length - bad.length : there.length} of ${all}`, cut(missing, 110)),
    card(split.length ? "odd" : "good", "Views", split.length ? "differ" : run.groups.some((g) => g.parts.length) ? "agree" : "–", cut(parted, 110)),
    card("", "Sent", `${number(run.sent.rate)} /s`, `${number(run.sent.total)} in all; delivered ${number(run.delivered.rate)} /s`),
    card("", "From send to delivery", duration(run.latency.p50), `median; 99 % within ${duration(run.latency.p99)}`),
    card(blocked.length ? "odd" : "good", "Blocked senders", blocked.length ? blocked.map((each) => cut(each.name, 20)).join(", ") : "none", blocked.length ? cut(blocked[0].blocked[0].why, 110) : "")
  );
}

function stateOf(process) {
  if (process.state === "unseen") return ["unseen", "not recorded"];
  if (isThere(process) && process.quiet) return ["quiet", `quiet for ${duration(process.quiet)}`];
  return [process.state, process.state];
}

function showProcesses(run) {
  const heads = ["process", "state", "view", n("sent /s"), n("delivered /s"), n("median"), n("99 %"), "why, or what it waits for"];
  const rows = run.processes.map((process) => {
    const [style, word] = stateOf(process);
    const state = make("span", `state ${style}`);
    state.append(make("i"), document.createTextNode(word));
    const views = Object.entries(process.views).map(([group, view]) => (run.groups.length > 1 ? `${cut(group, 20)} ${view}` : `${view}`));
    const waits = process.blocked.map((each) => `blocked for ${duration(each.for)}: ${each.why}`).join("; ");
    const why = isThere(process) ? waits : process.why;
    const name = make("span");
    const key = make("i", "key");
    key.style.background = `var(${colourOf(process.name)})`;
    name.append(key, document.createTextNode(` ${cut(process.name, 40)}`));
    return row([
      { node: name }, { node: state }, cut(views.join(", ") || "–", 60), n(number(process.sent)), n(number(process.delivered)),
      n(duration(process.p50)), n(duration(process.p99)), { text: cut(why, 300), style: "why" },
    ]);
  });
  table($("processes"), heads, rows);
}

function showGroups(run) {
  part("groups", run.groups, (groups) => {
    const open = new Set([...document.querySelectorAll("#groups details[open]")].map((each) => each.dataset.group));
    $("groups").replaceChildren(...groups.map((group) => groupBox(group, open)));
  });
}

function groupBox(group, open) {
  const box = make("section");
  box.append(make("h3", "", `Group ${cut(group.name, 80)}`));
  group.parts.forEach((one) => {
    const lacks = one.behind.length ? `, not installed by ${one.behind.join(", ")}` : "";
    box.append(make("p", "note", `View ${one.number}, with ${plural(one.members.length, "member")}${cut(lacks, 200)}`));
    const list = make("ul", "members");
    one.members.forEach((name) => list.append(make("li", "", cut(name, 40))));
    box.append(list);
  });
  if (group.joined.length) box.append(make("p", "note", `Joined, without views: ${cut(group.joined.join(", "), 400)}`));
  if (group.absent.length) {
    box.append(make("p", "note", "Not there any more:"));
    const list = make("ul", "absent");
    group.absent.slice(0, 20).forEach((each) => {
      const item = make("li");
      item.append(make("b", "", cut(each.name, 40)), document.createTextNode(`: ${cut(each.why, 300)}`));
      list.append(item);
    });
    box.append(list);
    if (group.absent.length > 20) box.append(make("p", "note", `Showing 20 of ${group.absent.length}.`));
  }
  const details = make("details");
  details.dataset.group = group.name;
  details.open = open.has(group.name);
  details.append(make("summary", "", group.views.length === 1 ? "The view and its reasons" : `The last ${group.views.length} views and their reasons`));
  const inside = make("table");
  table(inside, [n("view"), "when", "members", "what changed"], group.views.map((view) => {
    const changes = [...view.left.map((each) => `${each.name} is gone: ${each.why}`), ...(view.joined.length ? [`new: ${view.joined.join(", ")}`] : [])];
    return row([n(String(view.number)), since(view.t), cut(view.members.join(", "), 200), cut(changes.join("; ") || "–", 400)]);
  }));
  const wide = make("div", "wide");
  wide.append(inside);
  details.append(wide);
  box.append(details);
  return box;
}

function showLog(run) {
  part("log", run.log, (log) => {
    const body = make("tbody");
    log.slice().reverse().forEach((each) => {
      const line = make("tr");
      line.append(make("td", "", since(each.t)), make("td", "", cut(each.process, 40)), make("td", "", cut(each.text, 500)));
      body.append(line);
    });
    $("log").replaceChildren(body);
  });
}

// --- pictures ---------------------------------------------------------------------------------------------------------

function colourOf(name) {
  const place = frame && frame.run ? frame.run.processes.findIndex((each) => each.name === name) : -1;
  return COLOURS[place < 0 ? COLOURS.length - 1 : place % (COLOURS.length - 1)];
}

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function paper(canvas, height) {
  const wide = canvas.clientWidth;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(wide * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, wide, height);
  pen.font = "11px system-ui, sans-serif";
  return [pen, wide];
}

function drawFlow() {
  if (!frame || !frame.run) return;
  const run = frame.run;
  const lanes = run.processes.slice(-MOST_LANES);
  const height = 34 + lanes.length * 30;
  const [pen, wide] = paper($("flow"), height);
  const left = Math.min(110, Math.max(60, wide * 0.16));
  const until = clock.shown + (performance.now() - clock.at) * clock.speed - DELAY * Math.min(clock.speed, 1);
  const from = until - WINDOW;
  const x = (t) => left + ((t - from) / WINDOW) * (wide - left - 10);
  const y = Object.fromEntries(lanes.map((process, place) => [process.name, 22 + place * 30]));
  const soft = ink("--soft");
  const colours = Object.fromEntries(COLOURS.map((name) => [name, ink(name)]));
  pen.fillStyle = soft;
  for (let t = Math.ceil(from / 1000) * 1000; t <= until; t += 1000) {
    pen.strokeStyle = ink("--line");
    pen.beginPath();
    pen.moveTo(x(t), 8);
    pen.lineTo(x(t), height - 16);
    pen.stroke();
    pen.fillText(`${((t - run.began) / 1000).toFixed(0)} s`, x(t) - 8, height - 4);
  }
  lanes.forEach((process) => {
    pen.strokeStyle = isThere(process) || process.state === "unseen" ? soft : ink("--line");
    pen.setLineDash(isThere(process) ? [] : [2, 5]);
    pen.beginPath();
    pen.moveTo(left, y[process.name]);
    pen.lineTo(wide - 10, y[process.name]);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = isThere(process) ? ink("--ink") : ink("--faint");
    pen.fillText(cut(process.name, 14), 8, y[process.name] + 4);
  });
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, wide - left, height);
  pen.clip();
  const free = {};
  marks.forEach((mark) => drawMark(pen, mark, x, y, from, until, colours, free));
  pen.restore();
}

function drawMark(pen, mark, x, y, from, until, colours, free) {
  const [kind, t, process, sender, , sent, text] = mark;
  if (t < from || t > until || y[process] === undefined) return;
  const at = x(t);
  const lane = y[process];
  if (kind === "s" || kind === "d") {
    const colour = colours[colourOf(sender || process)];
    pen.strokeStyle = pen.fillStyle = colour;
    if (kind === "d" && sent !== null && sender !== process && y[sender] !== undefined) {
      pen.globalAlpha = 0.45;
      pen.beginPath();
      pen.moveTo(x(sent), y[sender]);
      pen.lineTo(at, lane);
      pen.stroke();
      pen.globalAlpha = 1;
    }
    pen.beginPath();
    if (kind === "s") pen.arc(at, lane, 3.5, 0, 7);
    else { pen.moveTo(at - 3.5, lane - 4); pen.lineTo(at + 3.5, lane - 4); pen.lineTo(at, lane + 3.5); pen.closePath(); }
    pen.fill();
    return;
  }
  const bad = kind === "crash";
  pen.strokeStyle = pen.fillStyle = ink(bad ? "--bad" : kind === "view" ? "--soft" : "--fault");
  pen.lineWidth = 2;
  pen.beginPath();
  if (bad) { pen.moveTo(at - 6, lane - 6); pen.lineTo(at + 6, lane + 6); pen.moveTo(at + 6, lane - 6); pen.lineTo(at - 6, lane + 6); }
  else { pen.moveTo(at, lane - 9); pen.lineTo(at, lane + 9); }
  pen.stroke();
  pen.lineWidth = 1;
  const told = cut(bad ? "dead" : kind === "view" ? (text.match(/view \S+/) || ["view"])[0] : kind, 16);
  if (bad || at > (free[process] || 0)) {
    pen.fillText(told, at + 8, lane - 6);
    free[process] = at + 14 + pen.measureText(told).width;
  }
}

function showFlowWords(run) {
  const stride = run.flow.stride;
  const shown = Math.min(run.processes.length, MOST_LANES);
  const sampled = stride > 1 ? `There are too many messages to draw: one in ${stride} of each sender is.` : "Every message is drawn.";
  const lanes = shown < run.processes.length ? ` The last ${shown} of ${run.processes.length} processes have a line.` : "";
  const text = `${sampled}${lanes} In the last five seconds: ${number(run.sent.rate)} sent and ${number(run.delivered.rate)} delivered a second.`;
  part("flow-text", text, () => { $("flow-text").textContent = text; });
  part("flow-legend", ["once"], () => {
    const said = [["●", "sent"], ["▼", "delivered, with a line from its send, in the sender's colour"], ["❙", "a view, and other events"], ["✕", "dead"]];
    $("flow-legend").replaceChildren(...said.map(([sign, what]) => make("span", "", `${sign} ${what}`)));
  });
}

function drawChart(canvas, series, format, colours) {
  const [pen, wide] = paper(canvas, 120);
  const top = Math.max(...series.flatMap((each) => each.map((value) => value || 0)), 0.001);
  const left = 64;
  const floor = 100;
  pen.strokeStyle = ink("--line");
  pen.fillStyle = ink("--soft");
  [0, 0.5, 1].forEach((share) => {
    const y = floor - share * 84;
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(wide - 8, y);
    pen.stroke();
    pen.fillText(format(share * top), 2, y + 4);
  });
  pen.fillText("60 s ago", left, 116);
  pen.fillText("now", wide - 30, 116);
  series.forEach((values, place) => {
    pen.strokeStyle = ink(colours[place]);
    pen.lineWidth = 2;
    pen.beginPath();
    let down = false;
    values.forEach((value, at) => {
      const x = left + (at / (values.length - 1)) * (wide - left - 8);
      if (value === null) { down = false; return; }
      const y = floor - (value / top) * 84;
      if (down) pen.lineTo(x, y); else pen.moveTo(x, y);
      if (!down) pen.fillRect(x - 1, y - 1, 2, 2);
      down = true;
    });
    pen.stroke();
    pen.lineWidth = 1;
  });
}

function showCharts(run) {
  // The second that is under way is not over: it would always look like a fall.
  drawChart($("rates"), [run.sent.series.slice(0, -1), run.delivered.series.slice(0, -1)], (value) => number(value), ["--bar2", "--bar"]);
  drawChart($("latencies"), [run.latency.series.slice(0, -1)], duration, ["--bar"]);
  const rates = `Messages a second: sent (amber) ${number(run.sent.rate)}, delivered at all processes together (blue) ${number(run.delivered.rate)}.`;
  const unknown = run.latency.unmatched ? ` Of ${plural(run.latency.unmatched, "delivery", "deliveries")} the time of sending is not known.` : "";
  const late = `From send to delivery, 99 % of each second's deliveries within: now ${duration(run.latency.p99)}, median ${duration(run.latency.p50)}.${unknown}`;
  part("rates-text", rates, () => { $("rates-text").textContent = rates; });
  part("latencies-text", late, () => { $("latencies-text").textContent = late; });
}

// --- frames -----------------------------------------------------------------------------------------------------------

function show(told) {
  frame = told;
  part("what", told.what, (what) => { $("what").textContent = `plainchant watch · ${cut(what, 200)}`; });
  part("problems", told.source.problems, (list) => {
    $("problems").replaceChildren(...list.slice(0, 5).map((each) => make("p", "warning", cut(each, 400))));
  });
  showRuns(told);
  showVerdict(told.verdict);
  const run = told.run;
  if (!run) return;
  const state = told.source.over ? "ended" : told.source.behind > 1e6 ? `catching up, ${number(told.source.behind / 1e6)} MB to read` : "live";
  const title = `Run ${cut(run.name, 60)}${run.protocol ? `, ${cut(run.protocol, 40)}` : ""}: ${state}`;
  part("title", title, () => { $("title").textContent = title; document.title = `${title} · plainchant`; });
  showCards(run);
  showProcesses(run);
  showGroups(run);
  showLog(run);
  showFlowWords(run);
  showCharts(run);
  takeMarks(run);
  part("footer", [Math.floor(run.events / 1000), run.left_out], () => {
    const more = run.left_out ? ` ${number(run.left_out)} events of further processes are not shown.` : "";
    $("footer").textContent = `${number(run.events)} events since ${since(run.began)}.${more} Everything here is of the last seconds; the trace has all of it.`;
  });
}

function takeMarks(run) {
  const now = performance.now();
  if (clock.at && run.now >= clock.shown && now > clock.at) {
    const speed = (run.now - clock.shown) / (now - clock.at);
    clock.speed = frame.source.over ? 0 : Math.abs(speed - 1) < 0.5 ? 1 : speed;
  }
  clock.at = now;
  clock.shown = run.now;
  if (frame.source.over) clock.shown += DELAY, clock.speed = 0;
  if (run.flow.full) marks = [];
  marks.push(...run.flow.items);
  const oldest = run.now - WINDOW - 3000;
  marks = marks.filter((mark) => mark[1] >= oldest).slice(-MOST_MARKS);
}

function showRuns(told) {
  part("runs", [told.runs, told.run && told.run.name], ([runs, shown]) => {
    $("runs-label").hidden = runs.length < 2;
    $("runs").replaceChildren(...runs.map((name) => {
      const option = make("option", "", cut(name, 60));
      option.value = name;
      option.selected = name === shown;
      return option;
    }));
  });
}

let events = null;
let chosen = "";

function connect() {
  if (events) events.close();
  events = new EventSource(`events${chosen ? `?run=${encodeURIComponent(chosen)}` : ""}`);
  events.onmessage = (message) => {
    $("lost").hidden = true;
    if (!paused) show(JSON.parse(message.data));
  };
  events.onerror = () => {
    $("lost").textContent = "The connection to the server is lost: what stands here is old. Trying again.";
    $("lost").hidden = false;
  };
}

$("runs").addEventListener("change", (event) => { chosen = event.target.value; marks = []; connect(); });
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused) { marks = []; connect(); }
});

const THEMES = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  $("theme").textContent = `Colours: ${THEMES.find((each) => each[0] === theme)[1]}`;
  try { localStorage.setItem("plainchant-theme", theme); } catch { /* a private window keeps nothing */ }
}
$("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "";
  setTheme(THEMES[(THEMES.findIndex((each) => each[0] === now) + 1) % THEMES.length][0]);
  if (frame && frame.run) showCharts(frame.run);
});
let kept = "";
try { kept = localStorage.getItem("plainchant-theme") || ""; } catch { /* as above */ }
setTheme(THEMES.some((each) => each[0] === kept) ? kept : "");

const still = window.matchMedia("(prefers-reduced-motion: reduce)");
let lastDrawn = 0;
function animate(now) {
  // Who wants little motion gets a new picture with each frame of the server's, not sixty a second.
  if (!paused && now - lastDrawn >= (still.matches ? 500 : 33)) { lastDrawn = now; drawFlow(); }
  requestAnimationFrame(animate);
}
requestAnimationFrame(animate);
connect();
