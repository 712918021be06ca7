"use strict";
// Anonymous answers side by side. ?prompt=, ?size=, ?context={"language":"de"} and ?embed=1 set it up from another page.
const wanted = new URLSearchParams(location.search);
const size = Math.min(8, Math.max(2, Number(wanted.get("size")) || 2));
let shown = null; // the decision that is being voted on
let votes = 0;

function randomId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
const voter = (() => {
  try {
    const known = localStorage.getItem("nasheval-voter") ?? randomId();
    localStorage.setItem("nasheval-voter", known);
    return known;
  } catch {
    return randomId();
  }
})();
function contextGiven() {
  try {
    const given = JSON.parse(wanted.get("context") ?? "{}");
    return given && typeof given === "object" && !Array.isArray(given) ? given : {};
  } catch {
    return {};
  }
}

async function pose(event) {
  event?.preventDefault();
  const prompt = $("prompt").value.trim();
  if (!prompt) return;
  shown = null;
  $("answers-box").hidden = true;
  $("send").disabled = true;
  fill("trouble", el("p", { class: "lead", role: "status", text: "Waiting for the answers\u2026" }));
  try {
    const found = await ask("v1/compare", { prompt, size, answers: true, context: { ...contextOf(), ...contextGiven() } });
    shown = { id: found.decision_id, labels: found.answers.map((answer) => answer.label), key: randomId() };
    fill("trouble");
    drawAnswers(found.answers);
  } catch (error) {
    complain("trouble", error);
  } finally {
    $("send").disabled = false;
  }
}

function drawAnswers(answers) {
  fill(
    "answers",
    ...answers.map((answer) =>
      el(
        "article",
        { class: "answer", id: `answer-${answer.label}`, "aria-labelledby": `name-${answer.label}` },
        el("h3", { id: `name-${answer.label}`, text: `Answer ${answer.label}` }),
        el("div", { class: "said", text: answer.text, tabindex: 0, role: "region", "aria-label": `Text of answer ${answer.label}` }),
      ),
    ),
  );
  const button = (text, key, vote) =>
    el("button", { type: "button", class: "plain", "data-key": key, "aria-keyshortcuts": key, onclick: () => cast(vote), text });
  fill(
    "verdicts",
    ...answers.map((answer, index) =>
      button(answers.length === 2 ? `${answer.label} is better` : `${answer.label} is best`, String(index + 1), {
        winner: answer.label,
      }),
    ),
    button("Tie", "t", { zero: "tie" }),
    button("Both bad".replace("Both", answers.length === 2 ? "Both" : "All"), "b", { zero: "both_bad" }),
    button("Skip", "s", { zero: "skip" }),
  );
  $("keys-said").textContent = `Keys: ${answers.map((_, index) => index + 1).join(", ")} for the answers, t tie, b bad, s skip.`;
  fill("after");
  $("answers-box").hidden = false;
  $("answers-h").focus();
  say(`${answers.length} answers are there.`);
}

async function cast(vote) {
  if (!shown || shown.busy) return;
  const here = shown;
  here.busy = true;
  try {
    const found = await ask("v1/feedback", { decision_id: here.id, voter, key: here.key, ...vote });
    if (shown !== here) return;
    shown = null;
    if (vote.zero !== "skip") votes += 1;
    drawAfter(found.agents, vote);
  } catch (error) {
    here.busy = false;
    complain("after", error);
  }
}

function drawAfter(agents, vote) {
  for (const [label, agent] of Object.entries(agents)) {
    $(`name-${label}`).textContent = `${label}: ${agent}`;
    $(`answer-${label}`).classList.toggle("chosen", vote.winner === label);
  }
  for (const button of document.querySelectorAll("#verdicts button")) button.disabled = true;
  const said = vote.zero === "skip" ? "Skipped." : "Thank you: your vote is stored.";
  fill(
    "after",
    el("p", { class: "verdict", text: said }),
    el("button", {
      type: "button",
      class: "plain strong",
      id: "next",
      "aria-keyshortcuts": "n",
      text: "Next question",
      onclick: next,
    }),
    el("button", { type: "button", class: "plain", id: "again", text: "Same question again", onclick: () => pose() }),
  );
  $("count").textContent = `${plural(votes, "vote")} from you in this visit.`;
  say(`${said} ${Object.entries(agents).map(([label, agent]) => `${label} was ${agent}`).join(", ")}.`);
  $("next").focus({ preventScroll: true });
  if (window.parent !== window) window.parent.postMessage({ source: "nasheval", event: "voted" }, "*");
}
function next() {
  $("answers-box").hidden = true;
  $("prompt").value = "";
  $("prompt").focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select")) return;
  if (event.key.toLowerCase() === "n" && $("next") && !$("answers-box").hidden) {
    event.preventDefault();
    return next();
  }
  const button = document.querySelector(`#verdicts button[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (button && !button.disabled && !$("answers-box").hidden) {
    event.preventDefault();
    button.click();
  }
});

$("question").addEventListener("submit", pose);
document.body.classList.toggle("embedded", wanted.get("embed") === "1");
async function start() {
  try {
    const given = contextGiven();
    const { inputs } = await ask("v1/explore/inputs");
    fill("inputs", ...inputs.filter((input) => !(input.name in given)).map(inputFor));
    fill("trouble");
  } catch (error) {
    complain("trouble", error);
  }
  document.body.dataset.ready = "yes";
  if (wanted.get("prompt")) {
    $("prompt").value = wanted.get("prompt");
    pose();
  }
}
startKey(start);
start();
