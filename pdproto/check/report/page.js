"use strict";

/* What is selected is the address: "#f2s5" is step 5 of finding 2, "#f2s0" its start, and "#f2"
   the step that a reader came for. */

function selectionOf(hash, findings) {
  const match = /^#f(\d+)(?:s(\d+))?$/.exec(hash);
  const index = match ? Number(match[1]) - 1 : firstShown(findings);
  if (!(index in findings)) return opened(firstShown(findings), findings);
  if (!match || !match[2]) return opened(index, findings);
  return { finding: index, step: Math.min(Number(match[2]), stepCount(findings[index])) };
}

/* A finding opens at the step that breaks it, or at the first step of what repeats for ever, or
   at the end: there is the witness, or the state in which the run is stuck. */
function opened(index, findings) {
  const finding = findings[index];
  const last = stepCount(finding);
  if (!last) return { finding: index, step: 0 };
  const broken = finding.trace.findIndex((step) => step.holds[finding.name] === false);
  if (broken >= 0) return { finding: index, step: broken + 1 };
  return { finding: index, step: finding.loop === null ? last : Math.min(finding.loop + 1, last) };
}

function addressOf(selection) {
  return `#f${selection.finding + 1}s${selection.step}`;
}

/* The first violation that can be looked at is what a reader came for. */
function firstShown(findings) {
  const violated = findings.findIndex((finding) => finding.verdict === "violated");
  return violated < 0 ? 0 : violated;
}

function stepCount(finding) {
  return finding.trace ? finding.trace.length : 0;
}

/* Return the selection that a key leads to, or null if the key means nothing here. */
function moved(selection, key, findings) {
  const last = stepCount(findings[selection.finding]);
  const at = (step) => ({ finding: selection.finding, step: Math.max(0, Math.min(step, last)) });
  const to = (finding) => (finding in findings ? opened(finding, findings) : null);
  switch (key) {
    case "ArrowDown": case "ArrowRight": case "j": return at(selection.step + 1);
    case "ArrowUp": case "ArrowLeft": case "k": return at(selection.step - 1);
    case "Home": return at(0);
    case "End": return at(last);
    case "n": return to(selection.finding + 1);
    case "p": return to(selection.finding - 1);
    default: return /^[1-9]$/.test(key) ? to(Number(key) - 1) : null;
  }
}

/* Below here everything touches the document; steps.js has the parts that another page shares. */

function stepper(selection, findings, go) {
  const last = stepCount(findings[selection.finding]);
  const button = (label, key, title, disabled) => {
    const node = make("button", "", label);
    node.type = "button";
    node.title = title;
    node.setAttribute("aria-label", title);
    node.disabled = disabled;
    node.addEventListener("click", () => go(key));
    return node;
  };
  return make("div", "stepper",
    make("output", "", selection.step ? `Step ${selection.step} of ${last}` : "Start"),
    button("⇤", "Home", "first step", selection.step === 0),
    button("←", "ArrowLeft", "previous step", selection.step === 0),
    button("→", "ArrowRight", "next step", selection.step === last),
    button("⇥", "End", "last step", selection.step === last));
}

function inspect(panel, selection, findings, go) {
  const finding = findings[selection.finding];
  panel.hidden = false;
  if (!finding.trace) {
    panel.replaceChildren(
      make("h2", "", finding.name), make("p", "muted", finding.headline), hint());
    return;
  }
  const step = selection.step ? finding.trace[selection.step - 1] : null;
  panel.replaceChildren(
    stepper(selection, findings, go),
    ...(step ? facts(step) : [make("p", "row-name", startName(finding))]),
    ...(step ? messages(step) : []),
    ...properties(holdsAfter(finding, selection.step)),
    ...inFlight(finding, selection.step),
    ...state(finding, selection.step),
    hint());
}

function hint() {
  return make("p", "hint", make("kbd", "", "j"), " ", make("kbd", "", "k"), " step, ",
    make("kbd", "", "?"), " all keys");
}

/* Mark the selection in the picture and the list, and keep its step in view. */
function show(selection, panel, findings, go) {
  const select = (nodes, chosen) => nodes.forEach(
    (node) => node.classList.toggle("selected", node === chosen));
  const section = document.getElementById(`f${selection.finding + 1}`);
  const band = document.getElementById(addressOf(selection).slice(1));
  select(document.querySelectorAll(".finding"), section);
  select(document.querySelectorAll(".band"), band);
  document.querySelectorAll(".findings ol a").forEach((link, index) => {
    if (index === selection.finding) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  inspect(panel, selection, findings, go);
  if (band) reveal(band);
}

function start() {
  const findings = JSON.parse(document.getElementById("result").textContent).properties;
  if (!findings.length) return;
  const panel = document.getElementById("inspector");
  const help = document.getElementById("help");
  let selection = selectionOf(location.hash, findings);
  const choose = (next) => {
    selection = next;
    show(selection, panel, findings, go);
    history.replaceState(null, "", addressOf(selection));
  };
  const go = (key) => {
    const next = moved(selection, key, findings);
    if (next) choose(next);
    return next !== null;
  };
  document.documentElement.classList.add("js");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "?") {
      if (help.open) help.close(); else help.showModal();
    } else if (help.open || !go(event.key)) {
      return;
    }
    event.preventDefault();
  });
  document.querySelectorAll(".band").forEach((band) => {
    band.addEventListener("click", () => choose(selectionOf(`#${band.id}`, findings)));
  });
  document.querySelectorAll(".findings ol a, .number").forEach((link) => {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      choose(selectionOf(link.getAttribute("href"), findings));
    });
  });
  help.querySelector("button").addEventListener("click", () => help.close());
  addEventListener("hashchange", () => choose(selectionOf(location.hash, findings)));
  // The address stays as it is: a browser that still loads would scroll the page to a new one.
  show(selection, panel, findings, go);
  // The picture has scrolled to the selected step, so the page itself need not.
  addEventListener("load", () => requestAnimationFrame(() => scrollTo(0, 0)));
}

if (typeof document !== "undefined") start();
