"use strict";
// What all live pages share. Everything that comes from the service is written as text, never as HTML.
const D = {}; // what the report's parts draw from
const stored = (() => {
  try {
    sessionStorage.getItem("nasheval-key");
    return sessionStorage;
  } catch {
    return { getItem: () => null, setItem: () => {} }; // in a frame that may keep nothing
  }
})();

class Refusal extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
  }
}

// Ask the service; a body makes it a POST. Raises a Refusal with what the service says.
async function ask(path, body) {
  const headers = { accept: "application/json" },
    key = stored.getItem("nasheval-key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Refusal(0, { code: "unreachable", message: "The service cannot be reached; try again." });
  }
  const said = await answer.json().catch(() => ({ error: { code: "junk", message: `Status ${answer.status}.` } }));
  if (answer.ok) return said;
  const error = said.error ?? { code: "junk", message: `Status ${answer.status}.` };
  if (NEEDS_KEY[error.code]) {
    $("key-form").hidden = false;
    error.message = NEEDS_KEY[error.code](Boolean(key));
  }
  throw new Refusal(answer.status, error);
}
const NEEDS_KEY = {
  no_key: (given) => (given ? "The service does not know this key; enter another." : "This service asks for a key."),
  wrong_scope: () => "This key may not do what this page does; enter one with the scope that is named above.",
};

function startKey(again) {
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    stored.setItem("nasheval-key", $("key").value.trim());
    $("key").value = "";
    $("key-form").hidden = true;
    again();
  });
}

function complain(id, error) {
  const text = error instanceof Refusal ? error.message : "Something went wrong on this page; reload it.";
  fill(id, el("p", { class: "note", role: "alert", text: text.charAt(0).toUpperCase() + text.slice(1) }));
  if (!(error instanceof Refusal)) throw error;
}

// Light or dark, as it was chosen on any of the pages.
if (stored.getItem("nasheval-theme")) document.documentElement.dataset.theme = stored.getItem("nasheval-theme");
document.getElementById("theme")?.addEventListener("click", () => {
  setTimeout(() => stored.setItem("nasheval-theme", document.documentElement.dataset.theme ?? ""));
});

const seconds = (value) =>
  value === null || value === undefined ? MISSING : value < 1 ? `${brief(1000 * value)} ms` : `${brief(value)} s`;
const clockTime = (at) => new Date(1000 * at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

// Fields for the context columns of the model, and what stands in them.
function inputFor(input) {
  const id = `input-${input.name}`,
    named = { id, "data-name": input.name, "data-kind": input.kind };
  const option = (value, text) => el("option", { value, text });
  const field =
    input.kind === "number"
      ? el("input", { ...named, type: "number", step: "any", placeholder: `about ${brief(input.mean)}` })
      : el(
          "select",
          named,
          option("", "not given"),
          ...(input.kind === "truth" ? ["true", "false"] : input.values).map((value) => option(value, value)),
        );
  return el("div", {}, el("label", { for: id, text: input.name }), field);
}
function contextOf() {
  const context = {};
  for (const field of document.querySelectorAll("#inputs [data-name]")) {
    if (field.value === "") continue;
    const kind = field.dataset.kind;
    context[field.dataset.name] =
      kind === "number" ? Number(field.value) : kind === "truth" ? field.value === "true" : field.value;
  }
  return context;
}
