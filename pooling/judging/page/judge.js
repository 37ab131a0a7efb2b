"use strict";
// Texts reach the page only through textContent: no string becomes markup.

const SETTLE = 200;      // ms after a document appears in which no key judges it: a second tap was meant for the last one
const RETRY = 2000;      // ms between attempts to reach the server
const ATTEMPTS = 10;     // attempts of a request that the server fails to save
const LOOK_AGAIN = 5000; // ms between requests for a document while there is none
const SLOW = 3000;       // ms after which the page says that it waits for an answer
const LOST = 120000;     // ms after which an answer is taken for lost: a connection may end without a sign
const PASSAGE = 10000;   // characters of a marked passage that are kept

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 52rem)");
let state = null;
let ready = false;
let lookAgain = 0;
let unsaved = 0;          // judgements and other changes on their way to the server
const drafts = new Map(); // notes not yet saved, by topic and document
let passage = "";         // the marked passage of the document on the screen

function element(name, content, attributes = {}, namespace = "http://www.w3.org/1999/xhtml") {
  const created = document.createElementNS(namespace, name);
  fill(created, [content].flat());
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  return created;
}

// Replace the children of an element. A call with very many arguments would fail, so they are added one by one.
function fill(parent, children) {
  const fragment = document.createDocumentFragment();
  for (const child of children) fragment.append(child);
  parent.replaceChildren(fragment);
}

const svgElement = (name, attributes) => element(name, [], attributes, "http://www.w3.org/2000/svg");

function fillDefinitions(list, pairs) {
  fill(list, pairs.map(([term, text]) => element("div", [element("dt", term), element("dd", text, {dir: "auto"})])));
}

// An id by which the server recognises a request that arrives twice. (randomUUID does not exist on pages without TLS.)
function requestId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Show a message, or none. It is in the dialog that is open, which covers the rest of the page, and before sign-in
// above the form.
function problem(text) {
  placeProblem();
  if ($("problem").textContent !== text) $("problem").textContent = text;
  $("problem").hidden = !text;
}

function placeProblem() {
  const dialog = [...document.querySelectorAll("dialog[open]")].pop();
  const [parent, before] = dialog ? [dialog, dialog.firstChild]
    : $("work").hidden ? [document.body, document.body.firstChild] : [$("work"), $("announcement")];
  if ($("problem").parentNode !== parent) parent.insertBefore($("problem"), before);
}

// A name or title in a sentence. One that is written from right to left would otherwise turn what follows it around.
function isolated(text) {
  return /[\u0590-\u08ff\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufeff]/.test(text) ? `\u2068${text}\u2069` : text;
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Send until there is an answer, and say so if that takes long. A judgement whose answer was lost is sent again with
// the same id. An error of the server that another attempt would repeat (500), or that stays, is returned.
async function post(path, content) {
  const changes = "request" in content;
  const unfinished = changes ? "Not saved yet; trying again …" : "Trying again …";
  unsaved += changes;
  try {
    for (let attempt = 1; ; attempt++) {
      const slow = setTimeout(() => problem(`Waiting for the server …${changes ? " Not saved yet." : ""}`), SLOW);
      try {
        const answer = await fetch(path, {
          method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(content),
          signal: AbortSignal.timeout(LOST),
        });
        const body = await bodyOf(answer);
        if (answer.status < 500) {
          problem("");
          return {status: answer.status, body};
        }
        const message = body.message || `The server failed (${answer.status}).`;
        if (answer.status < 502 || attempt >= ATTEMPTS) {
          problem("");
          const lost = changes ? " This was not saved." : "";
          return {status: answer.status, body: {message: `${message}${lost} Try again, or tell the owner of this page.`}};
        }
        problem(`${message} ${unfinished}`);
      } catch {
        problem(`The server can't be reached. ${unfinished}`);
      } finally {
        clearTimeout(slow);
      }
      await wait(RETRY);
    }
  } finally {
    unsaved -= changes;
  }
}

// The content of an answer. A page of a proxy is not quoted: its source says nothing to a reader.
async function bodyOf(answer) {
  const type = answer.headers.get("Content-Type") || "";
  if (type.startsWith("application/json")) return answer.json();
  if (type.startsWith("text/plain")) return {message: (await answer.text()).slice(0, 200)};
  return {message: `The server failed (${answer.status}).`};
}

async function ask(path, content = {}, announcement = "") {
  if (!ready && path !== "next") return 0;
  ready = false;
  clearTimeout(lookAgain);
  $("main").setAttribute("aria-busy", "true");
  const {status, body} = await post(path, content);
  if (status === 401) {
    showSignIn(body);
    return status;
  }
  const before = state && state.document && keyOf(state);
  if (status === 200) state = body;
  else if (body.state) state = body.state;
  if (status !== 200) problem(body.message);
  if (state) {
    try {
      show(before, status === 200 ? announcement : "");
    } catch (error) {
      problem(`The page could not show this document completely (${error.message}). You can judge it, or skip it.`);
    }
  }
  await wait(state && state.document ? SETTLE : 0);
  ready = true;
  $("main").setAttribute("aria-busy", "false");
  return status;
}

async function onDocument(path, more, announcement) {
  if (!state || !state.document) return;
  const shown = keyOf(state);
  const content = {topic: state.topic.name, document: state.document.name, request: requestId(), ...more};
  if (await ask(path, content, announcement) === 200 && path === "judge") drafts.delete(shown);
}

const keyOf = ({topic, document: doc}) => `${topic.name} ${doc.name}`;

function judge(grade) {
  const known = state && state.grades.find((each) => each.grade === grade);
  if (known) onDocument("judge", {grade, note: $("note").value, rationale: passage}, `Saved: ${known.name}.`);
}

// The next topic that has documents left for this assessor, in either direction. If there is none, the answer says so.
const turn = (step) => ask("turn", {step});

function show(before, announcement) {
  const {topic, document: doc} = state;
  document.title = topic ? `${topic.name} · ${state.title}` : state.title;
  $("loading").hidden = true;
  $("sign-in").hidden = true;
  $("work").hidden = false;
  $("title").textContent = state.title;
  $("assessor").textContent = state.assessor;
  $("undo").disabled = !state.undo;
  $("skip").disabled = !doc;
  $("cannot").disabled = $("note-button").disabled = !doc;
  $("overview-button").hidden = !state.owner;
  $("search-button").hidden = $("search-key").hidden = !state.searches;
  showTopics();
  showGrades(!doc);
  showGuidelines();
  showTried();
  $("topic").hidden = $("figures").hidden = !topic;
  if (topic) { showTopic(topic); showFigures(topic); }
  $("document").hidden = !doc;
  $("nothing").hidden = !!doc;
  if (doc) showDocument(doc, topic);
  else showNothing(topic);
  $("passage-box").hidden = !doc || !state.rationale;
  if ((doc ? keyOf(state) : "") !== before) {
    scrollTo(0, 0);
    $("note").value = doc ? drafts.get(keyOf(state)) ?? doc.note : "";
    showNote(!!$("note").value, false);
    showPassage("");
    (doc ? $("document") : $("nothing")).focus({preventScroll: true});
    $("announcement").textContent = `${announcement} ${doc ? `Topic ${topic.name}, document ${doc.name}.` : $("nothing-title").textContent}`;
  }
}

function showTopics() {
  const options = state.topics.map((each) => element(
    "option", `${each.left ? (each.may_stop ? "◌ " : "") : "✓ "}${each.name}${each.title ? ` · ${each.title}` : ""} (${each.judged}/${each.limit})`,
    {value: `=${each.name}`, dir: "auto"},
  ));
  if (state.by_method) options.unshift(element("option", "as the method chooses", {value: ""}));
  fill($("topics"), options);
  $("topic-search").hidden = state.topic_count <= state.topics.length;
  $("topics").value = state.turned === null ? "" : `=${state.turned}`;
}

function showGrades(disabled) {
  fill($("grades"), state.grades.map((each) => {
    const key = each.grade >= 0 && each.grade <= 9 ? [" ", element("kbd", String(each.grade))] : [` (${each.grade})`];
    const button = element("button", [each.name, ...key], {type: "button"});
    if (each.grade >= 0 && each.grade <= 9) button.dataset.key = each.grade;
    if (each.relevant) button.className = "primary";
    if (each.guideline) button.title = each.guideline;
    button.disabled = disabled;
    button.addEventListener("click", () => judge(each.grade));
    return button;
  }));
  labelKeys();
}

function showGuidelines() {
  const explained = state.grades.filter((each) => each.guideline);
  $("guidelines").hidden = !explained.length;
  fillDefinitions($("guideline-list"), explained.map((each) => [`${each.grade} · ${each.name}`, each.guideline]));
}

// While an assessor burns in: the known grade of the gold document that they have just judged.
function showTried() {
  const tried = state.tried;
  $("tried").hidden = !tried;
  if (!tried) return;
  const name = (grade) => (state.grades.find((each) => each.grade === grade) || {name: grade === null ? "can’t judge" : String(grade)}).name;
  const judged = tried.given === tried.known ? ", as you judged" : `; you judged it ${name(tried.given)}`;
  $("tried").textContent = `To begin with: ${isolated(tried.document)} is ${name(tried.known)}${judged}.`;
}

function showTopic(topic) {
  if ($("topic-name").textContent !== topic.name) $("more").open = !narrow.matches;
  $("topic-name").textContent = topic.name;
  $("topic-title").textContent = topic.title || topic.description || "This topic has no text.";
  $("description").textContent = topic.title ? topic.description : "";
  $("narrative").textContent = topic.narrative;
  $("topic-owner").hidden = !topic.owner;
  $("topic-owner").textContent = topic.owner === state.assessor ? "Your topic" : `The topic of ${isolated(topic.owner)}`;
  $("more").hidden = !(topic.title && topic.description) && !topic.narrative;
}

function showFigures(topic) {
  const own = state.topics.find((each) => each.name === topic.name);
  $("judged").textContent = own.judged;
  $("limit").textContent = own.limit;
  $("progress").max = Math.max(own.limit, 1);
  $("progress").value = own.judged;
  const {judged, found, pooled, curve} = topic.figures;
  $("found-label").textContent = state.blind ? "Relevant, by you" : "Relevant found";
  $("found").textContent = topic.known.judged ? `${found} (+ ${topic.known.relevant} known before)` : String(found);
  const ahead = topic.ahead;
  $("ahead-label").textContent = ahead ? `Expected in the next ${ahead.documents}` : "Expected ahead";
  $("ahead").textContent = ahead ? `${ahead.mean.toFixed(1)} (${ahead.low}–${ahead.high})` : "–";
  $("total").textContent = `${state.total.judged} of ${state.total.limit}`;
  $("pace").textContent = state.pace === null ? "–" : `${state.pace < 10 ? state.pace.toFixed(1) : Math.round(state.pace)} s per document`;
  showRecall(topic.recall);
  showCurve(curve, ...pooled);
  $("curve-label").textContent = judged
    ? `${found} relevant in ${judged} judged${state.blind ? " by you" : ""} (${own.limit - own.judged} to go)`
    : "Nothing judged yet";
}

function showRecall(recall) {
  const known = recall && recall.recall !== undefined;
  $("recall-row").hidden = $("most-row").hidden = !known;
  if (known) {
    $("recall").textContent = `at least ${percent(recall.recall)}`;
    $("most").textContent = `at most ${recall.most} (${percent(recall.sure)} sure)`;
  }
  $("may-stop").hidden = !recall || !recall.may_stop;
  if (recall) {
    $("may-stop").textContent = `You may stop: ${percent(recall.target)} of this topic’s relevant documents are `
      + `probably found (${percent(recall.sure)} sure).`;
  }
}

// Rounded down: never more than is known.
const percent = (share) => `${Math.floor(share * 100 + 1e-9)}%`;

// Relevant documents of the pool found after each judgement; the dashed line is what an even yield would have found.
function showCurve(curve, judged, found) {
  const [width, height, edge] = [240, 72, 6];
  const x = (at) => (edge + (width - 2 * edge) * at / Math.max(judged, 1)).toFixed(1);
  const y = (count) => (height - edge - (height - 2 * edge) * count / Math.max(found, 1)).toFixed(1);
  const steps = curve.map(([at, count]) => `H${x(at)}V${y(count)}`).join("");
  $("curve").replaceChildren(
    svgElement("line", {class: "even", x1: x(0), y1: y(0), x2: x(judged), y2: y(found)}),
    svgElement("path", {class: "steps", d: `M${x(0)} ${y(0)}${steps}H${x(judged)}`}),
  );
}

function showDocument(doc, topic) {
  $("document-name").textContent = doc.name;
  $("missing").hidden = doc.pieces !== null;
  fill($("text"), pieces(doc.pieces || []));
  showMore($("text"), topic.name, doc.name, doc.more);
  const fields = Object.entries(doc.fields);
  $("fields").hidden = !fields.length;
  fillDefinitions($("fields"), fields);
}

const pieces = (all) => all.map(([text, marked]) => (marked ? element("mark", text) : document.createTextNode(text)));

// A button after a part of a long document, which brings the next part.
function showMore(parent, topic, name, more) {
  if (!(more > 0)) return;
  const button = element("button", `Show more (${more.toLocaleString()} characters left)`, {type: "button", class: "more"});
  button.addEventListener("click", async () => {
    button.disabled = true;
    // The characters of the text so far as the server counts them, without the button.
    const start = [...parent.textContent].length - [...button.textContent].length;
    const {status, body} = await post("rest", {topic, document: name, start});
    if (!button.isConnected) return; // another document has taken its place
    if (status !== 200) { problem(body.message); button.disabled = false; return; }
    button.remove();
    for (const piece of pieces(body.pieces)) parent.append(piece);
    showMore(parent, topic, name, body.more);
  });
  parent.append(button);
}

function showNothing(topic) {
  const own = topic && state.topics.find((each) => each.name === topic.name);
  const {elsewhere} = state;
  const [judged, limit] = own ? [own.judged, own.limit] : [state.total.judged, state.total.limit];
  const whose = own ? `Topic ${own.name}` : "This pool";
  if (own && topic.owner && topic.owner !== state.assessor && judged < limit) {
    $("nothing-title").textContent = `The topic of ${isolated(topic.owner)}`;
    $("nothing-text").textContent = "No document of it waits for a second assessor.";
  } else if (judged + (own ? topic.unjudgeable : 0) < limit) {
    $("nothing-title").textContent = "No document for you at the moment";
    $("nothing-text").textContent = `The last documents of ${own ? "this topic" : "this pool"} are with other assessors. `
      + "If one comes back, it appears here.";
  } else {
    $("nothing-title").textContent = `${whose} is done`;
    $("nothing-text").textContent = own
      ? `${own.judged} documents judged, ${topic.figures.found} of them relevant${state.blind ? " by you" : ""}.`
      : `${judged} documents judged.`;
    if (own && topic.unjudgeable) $("nothing-text").textContent += ` ${topic.unjudgeable} could not be judged.`;
    else if (topic && topic.waiting) $("nothing-text").textContent += ` ${topic.waiting} wait for a second assessor.`;
  }
  $("onward").hidden = !own || !elsewhere;
  if (own && !elsewhere) $("nothing-text").textContent += " No other topic has any left for you.";
  lookAgain = setTimeout(() => ready && !document.hidden && ask("next"), LOOK_AGAIN);
}

function showSignIn({assessors, owner}) {
  for (const open of document.querySelectorAll("dialog[open]")) open.close(); // it would block the form
  state = null;
  $("loading").hidden = true;
  $("look").hidden = !owner;
  ready = false;
  $("work").hidden = true;
  $("sign-in").hidden = false;
  $("name").hidden = !!assessors;
  $("name").required = !assessors;
  $("names").hidden = !assessors;
  fill($("names"), (assessors || []).map((name) => element("option", name, {value: name})));
  (assessors ? $("names") : $("name")).focus();
}

$("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = $("names").hidden ? $("name").value : $("names").value;
  $("begin").disabled = true;
  $("begin").textContent = "Signing in …";
  $("sign-in-problem").textContent = "";
  const {status, body} = await post("sign-in", {name});
  if (status === 200) await ask("next");
  else $("sign-in-problem").textContent = body.message || "Open your link again.";
  $("begin").disabled = false;
  $("begin").textContent = "Begin";
});
$("topics").addEventListener("change", (event) => {
  ask("turn", {topic: event.target.value ? event.target.value.slice(1) : null});
  event.target.blur();
});
$("topic-search").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await ask("turn", {topic: $("topic-id").value}) === 200) $("topic-id").value = "";
});
$("note").addEventListener("input", () => {
  if (state && state.document) drafts.set(keyOf(state), $("note").value);
});
for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("close", placeProblem);
addEventListener("beforeunload", (event) => {
  const noted = state && state.document && $("note").value.trim() !== state.document.note;
  if (unsaved || noted) event.preventDefault();
});
const BUTTONS = {
  previous: () => turn(-1), following: () => turn(1), onward: () => turn(1),
  skip: () => onDocument("skip", {}, "Skipped."), undo: () => ask("undo", {request: requestId()}, "Taken back."),
  cannot: () => onDocument("judge", {cannot_judge: true, note: $("note").value}, "Saved: can’t judge."),
  "passage-clear": () => { getSelection().empty(); showPassage(""); },
  "note-button": () => showNote($("note-box").hidden), leave: () => { $("menu").open = false; ask("leave"); },
  "help-button": () => showDialog("help"), "search-button": openSearch, "judged-button": listJudged,
  "judged-more": addJudged, "overview-button": overview, look: overview,
};
for (const [id, act] of Object.entries(BUTTONS)) $(id).addEventListener("click", () => act());
$("judged-topic").addEventListener("change", () => { $("judged-items").replaceChildren(); addJudged(); });
document.addEventListener("click", (event) => { if (!$("menu").contains(event.target)) $("menu").open = false; });

function showDialog(id) {
  $("menu").open = false;
  $(id).showModal();
  placeProblem();
}

function showNote(open, focus = true) {
  $("note-box").hidden = !open;
  $("note-button").setAttribute("aria-expanded", String(open));
  if (open && focus) $("note").focus();
}

function showPassage(text) {
  passage = text;
  $("passage").hidden = $("passage-clear").hidden = !text;
  $("passage-hint").hidden = !!text;
  $("passage").textContent = text.length > 300 ? `${text.slice(0, 300)} …` : text;
}

// What is marked in the text stays the passage when the mark goes, as it does when a button is pressed.
document.addEventListener("selectionchange", () => {
  if (!state || !state.rationale || !state.document) return;
  const marked = getSelection();
  if (marked.isCollapsed || !$("text").contains(marked.anchorNode) || !$("text").contains(marked.focusNode)) return;
  const text = marked.toString().trim();
  if (text) showPassage(text.slice(0, PASSAGE));
});

// Search the whole collection: documents that no run found can be judged too.
function openSearch() {
  if (!state.searches) return;
  $("search-status").textContent = "";
  showDialog("search");
  $("query").select();
}

let searches = 0;

async function search(event) {
  event.preventDefault();
  $("search-status").textContent = "Searching … (The first search builds the index, which takes longer.)";
  const number = ++searches;
  const {status, body} = await post("search", {query: $("query").value});
  if (number !== searches) return; // another search came later
  fill($("found-items"), status === 200 ? body.found.map((each) => foundItem(each, body.topic)) : []);
  if (status !== 200) $("search-status").textContent = body.message || "Please sign in again.";
  else $("search-status").textContent = body.found.length ? `${body.found.length} found, the best first.` : "Nothing found.";
}

function foundItem(each, topic) {
  const take = element("button", each.judged ? "Judged by you" : "Judge this too", {
    type: "button", "aria-label": `${each.judged ? "Judged by you" : "Judge this too"}: ${each.document}`,
  });
  take.disabled = each.judged || topic === null;
  take.addEventListener("click", async () => {
    const status = await ask("take", {topic, document: each.document});
    if (status === 200) {
      $("search").close();
      $("document").focus({preventScroll: true});
    } else $("search-status").textContent = $("problem").textContent || "Please try again.";
  });
  return element("li", [
    element("p", each.document, {class: "label", dir: "auto"}), element("p", each.snippet, {dir: "auto"}),
    element("div", [take], {class: "row"}),
  ]);
}

$("search-form").addEventListener("submit", search);

// List the assessor's judgements, latest first, each with its grade and note to correct.
async function listJudged() {
  fill($("judged-topic"), [
    element("option", "all", {value: ""}),
    ...state.topics.map((each) => element("option", `${each.name} ${each.title}`, {value: `=${each.name}`, dir: "auto"})),
  ]);
  $("judged-items").replaceChildren();
  showDialog("judged-list");
  await addJudged();
}

let listings = 0;

async function addJudged() {
  const chosen = $("judged-topic").value;
  const last = $("judged-items").lastElementChild;
  const content = {topic: chosen ? chosen.slice(1) : null, before: last ? Number(last.dataset.id) : null};
  const listing = ++listings;
  const {status, body} = await post("judged", content);
  if (listing !== listings) return; // another list was wanted since
  if (status !== 200) {
    $("judged-status").textContent = body.message || "Please sign in again.";
    return;
  }
  $("judged-items").append(...body.judgements.map(judgedItem));
  $("judged-more").hidden = !body.more;
  const listed = $("judged-items").childElementCount;
  $("judged-status").textContent = listed ? `${listed} listed, the latest first.` : "Nothing judged yet.";
}

// What a list shows of a document: topic, title and id, and below them how its text begins.
function heading(each, more = "") {
  return [
    element("p", `Topic ${isolated(each.topic)}${each.title ? ` · ${isolated(each.title)}` : ""} · ${isolated(each.document)}${more}`, {class: "label", dir: "auto"}),
    element("p", each.snippet, {dir: "auto"}),
  ];
}

function judgedItem(judgement) {
  const grade = element("select", [
    ...state.grades.map((each) => element("option", `${each.name} (${each.grade})`, {value: each.grade})),
    element("option", "can’t judge", {value: "cannot"}),
  ], {"aria-label": `Grade of ${judgement.document}`});
  grade.value = judgement.grade === null ? "cannot" : judgement.grade;
  const note = element("input", [], {
    "aria-label": `Note to ${judgement.document}`, placeholder: "note", maxlength: 2000, dir: "auto", value: judgement.note,
  });
  const save = element("button", "Save", {type: "button", disabled: ""});
  const result = element("span", "", {role: "status"});
  for (const each of [grade, note]) each.addEventListener("input", () => { save.disabled = false; result.textContent = ""; });
  save.addEventListener("click", async () => {
    const given = grade.value === "cannot" ? {cannot_judge: true} : {grade: Number(grade.value)};
    const status = await ask("correct", {judgement: judgement.id, note: note.value, request: requestId(), ...given});
    result.textContent = status === 200 ? "Saved." : status ? $("problem").textContent : "Not saved; please try again.";
    save.disabled = status === 200;
  });
  const whole = element("p", [], {class: "whole", dir: "auto"});
  const text = element("details", [element("summary", "Whole text"), whole]);
  text.addEventListener("toggle", async () => {
    if (!text.open || whole.childNodes.length) return;
    const {status, body} = await post("document", {judgement: judgement.id});
    const nothing = status === 200 ? "The collection has no text for it." : body.message || "Please sign in again.";
    fill(whole, body.pieces ? pieces(body.pieces) : [nothing]);
    showMore(whole, judgement.topic, judgement.document, body.more);
  });
  const when = new Date(judgement.at * 1000).toLocaleString();
  return element("li", [
    ...heading(judgement, ` · ${when}`),
    ...(judgement.rationale ? [element("p", [element("q", judgement.rationale)], {class: "quiet", dir: "auto"})] : []),
    element("div", [grade, note, save, result], {class: "row"}),
    text,
  ], {"data-id": judgement.id});
}

// Show what only the owner may see.
async function overview() {
  const {status, body} = await post("overview", {});
  if (status !== 200) return problem(body.message);
  const row = (cells) => element("tr", cells.map((cell) => element("td", String(cell), {dir: "auto"})));
  fill($("overview-assessors"), body.assessors.map((each) => row([
    each.listed ? each.name : `${each.name} (no longer listed)`, each.judged,
    each.pace === null ? "–" : each.pace.toFixed(1), each.last === null ? "–" : new Date(each.last * 1000).toLocaleString(),
    each.open, each.gold[1] ? `${each.gold[0]} of ${each.gold[1]}` : "–",
  ])));
  const kappa = (value) => (value === null ? "not defined" : value.toFixed(2));
  $("alpha").textContent = body.alpha === null ? "" : `Krippendorff’s α of all assessors: ${body.alpha.toFixed(2)}`;
  showDisputes(body);
  const agreement = (judges, each) => `${judges}: κ ${kappa(each.kappa)}`
    + `${body.graded ? `, of relevance ${kappa(each.kappa_relevance)}` : ""}; ${each.equal} of ${each.documents} equal`;
  const pairs = body.agreement.map((pair) => agreement(pair.assessors.map(isolated).join(" and "), pair));
  if (!pairs.length) pairs.push("No document has two judgements.");
  if (body.machine) pairs.push(`${agreement("People and the machine", body.machine)}, among those judged`);
  fill($("pairs"), pairs.map((pair) => element("li", pair)));
  $("overview-more").textContent = body.topic_count > body.topics.length
    ? `The first ${body.topics.length} of ${body.topic_count} topics.` : "";
  fill($("overview-topics"), body.topics.map((each) => row([
    each.name, `${each.judged} of ${each.limit}`, each.relevant,
    each.recall ? `at least ${percent(each.recall.recall)}${each.recall.may_stop ? ", may stop" : ""}` : "–", each.owner || "–",
  ])));
  $("overview-unjudgeable").hidden = !body.unjudgeable.length;
  $("unjudgeable-more").textContent = body.unjudgeable_count > body.unjudgeable.length
    ? `The first ${body.unjudgeable.length} of ${body.unjudgeable_count}.` : "";
  fill($("unjudgeable"), body.unjudgeable.map((each) => element("li", `${isolated(each.topic)} · ${isolated(each.document)}`)));
  if (!$("overview").open) showDialog("overview");
}

// Documents with different grades; the owner decides which one counts.
function showDisputes(body) {
  $("disputes").hidden = !body.disputes;
  $("disputes-status").textContent = body.disputes > body.disputed.length ? `${body.disputed.length} of ${body.disputes}` : "";
  fill($("disputed"), body.disputed.map((each) => {
    const grades = each.grades.map(([name, grade, note]) => `${isolated(name)}: ${grade}${note ? ` (${isolated(note)})` : ""}`).join(", ");
    const buttons = body.grades.map(([grade, name]) => {
      const button = element("button", `${name} (${grade})`, {
        type: "button", "aria-label": `${name}: ${each.document}`, "aria-pressed": String(each.resolved === grade),
      });
      if (each.resolved === grade) button.className = "primary";
      button.addEventListener("click", async () => {
        const {status, body: after} = await post("resolve", {
          topic: each.topic, document: each.document, grade, request: requestId(),
        });
        if (status !== 200) $("disputes-status").textContent = after.message;
        else showDisputes(after);
      });
      return button;
    });
    return element("li", [
      ...heading(each), element("p", grades, {dir: "auto"}), element("div", buttons, {class: "row"}),
    ]);
  }));
}

// Keys by the letter or sign that is typed, or by its position if the keyboard has no Latin letters.
const KEYS = {
  u: () => $("undo").click(), s: () => $("skip").click(), x: () => $("cannot").click(), c: () => showNote(true),
  n: () => turn(1), p: () => turn(-1), l: listJudged, "/": openSearch, "?": () => showDialog("help"),
};

// The digit of a key, also if it is typed with shift (French keyboards) or as another script's sign.
function digitOf(event) {
  if (/^[0-9]$/.test(event.key)) return Number(event.key);
  const position = /^Digit([0-9])$/.exec(event.code);
  return position && !event.shiftKey ? Number(position[1]) : null;
}

function letterOf(event) {
  if (/^[\x20-\x7e]$/.test(event.key)) return event.key.toLowerCase();
  const position = /^Key([A-Z])$/.exec(event.code);
  return position ? position[1].toLowerCase() : event.key;
}

let keysOn = true;
try {
  keysOn = localStorage.getItem("keys") !== "off";
} catch { /* the browser stores nothing */ }

function labelKeys() {
  document.body.classList.toggle("no-keys", !keysOn);
  for (const each of document.querySelectorAll("[data-key]")) {
    if (keysOn) each.setAttribute("aria-keyshortcuts", each.dataset.key);
    else each.removeAttribute("aria-keyshortcuts");
  }
}

$("keys-on").checked = keysOn;
$("keys-on").addEventListener("change", (event) => {
  keysOn = event.target.checked;
  try {
    localStorage.setItem("keys", keysOn ? "on" : "off");
  } catch { /* the choice lasts until the page is left */ }
  labelKeys();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    $("menu").open = false;
    if (event.target === $("note")) $("document").focus({preventScroll: true});
  }
  const elsewhere = event.target.closest("input, select, textarea, dialog") || document.querySelector("dialog[open]");
  if (!keysOn || elsewhere || event.repeat || event.ctrlKey || event.altKey || event.metaKey || !state || !ready) return;
  const digit = digitOf(event);
  const letter = letterOf(event);
  if (digit !== null) judge(digit);
  else if (Object.hasOwn(KEYS, letter)) KEYS[letter]();
  else return;
  event.preventDefault();
});

labelKeys();
$("loading").hidden = false;
ask("next");
