// What a page does beyond its HTML. Every page is whole without this file.
"use strict";

// A form is sent once: its buttons rest until the next page is there.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "yes";
  window.addEventListener("pageshow", () => delete form.dataset.sent, { once: true });
});

// A choice that changes its form reloads it with what is filled in, and keeps the focus.
for (const choice of document.querySelectorAll("select[data-reload]")) {
  choice.addEventListener("change", () => {
    sessionStorage.setItem("chosen", choice.id);
    const filled = [...new FormData(choice.form)].filter(
      ([name, value]) => value && name !== "form_key" && name !== choice.name,
    );
    const query = new URLSearchParams([...filled, [choice.name, choice.value]]);
    location.assign(`${location.pathname}?${query}`);
  });
}
document.getElementById(sessionStorage.getItem("chosen"))?.focus();
sessionStorage.removeItem("chosen");

// What an address names is in sight and has the focus.
const named = location.hash && document.getElementById(location.hash.slice(1));
if (named) named.focus();

// "/" leads to the search field, and "g" with a letter after it to a page, unless somebody types.
// Who speaks to a computer or presses keys by chance can turn that off.
const shortcuts = document.querySelector("[data-shortcuts]");
if (shortcuts) {
  shortcuts.checked = localStorage.getItem("shortcuts") !== "off";
  shortcuts.parentElement.hidden = false;
  shortcuts.addEventListener("change", () =>
    localStorage.setItem("shortcuts", shortcuts.checked ? "on" : "off"),
  );
}
let led = 0; // when "g" was pressed
document.addEventListener("keydown", (event) => {
  const going = Date.now() - led < 1500;
  led = 0;
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat) return;
  if (event.target.closest?.("input:not([type=checkbox]), select, textarea")) return;
  if (localStorage.getItem("shortcuts") === "off") return;
  const field = event.key === "/" && document.getElementById("find");
  const page = going && document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
  if (!field && !page) {
    if (event.key === "g") led = Date.now();
    return;
  }
  event.preventDefault();
  if (page) return page.click();
  field.focus();
  field.select();
});

// The preview follows the form, half a second behind. The one that its button asks for takes the
// focus; where it is refused, the form is sent as it is without script, and says what is wrong.
const question = document.querySelector("form[data-preview]");
if (question) {
  const region = document.getElementById("preview");
  const waits = document.querySelector(".waits");
  const now = document.querySelector("[data-now]");
  let [typing, showing, latest] = [0, 0, 0];
  let asking = new AbortController();
  const rest = (turn) => {
    if (turn !== latest) return;
    clearInterval(showing);
    waits.hidden = true;
    region.removeAttribute("aria-busy");
  };
  const look = async (button) => {
    const turn = ++latest;
    clearTimeout(typing);
    asking.abort(); // the service cancels a request without a client
    rest(turn);
    asking = new AbortController();
    const filled = new URLSearchParams(new FormData(question));
    const priced = filled.has("wanted") && !filled.get("epsilon") && !filled.get("accuracy");
    if (!button && priced) return;
    filled.delete("form_key");
    filled.set("act", "preview");
    const address = `${question.dataset.preview}?${filled}`;
    region.setAttribute("aria-busy", "true");
    const began = Date.now();
    // what goes on says itself how far it is
    const goesOn = region.querySelector("[data-again]");
    showing = setInterval(() => {
      waits.hidden = Boolean(goesOn);
      const seconds = Math.floor((Date.now() - began) / 1000);
      const words = waits.querySelector("[data-words]");
      words.textContent = words.dataset.words.replace("…", seconds);
    }, 500);
    try {
      const answer = await fetch(`${address}&part=preview`, { signal: asking.signal });
      if (turn !== latest) return;
      if (answer.redirected) return location.assign(address);
      region.innerHTML = await answer.text();
      if (button && region.querySelector("[data-refused]")) {
        button.dataset.plain = "yes";
        return button.click();
      }
      now.textContent = region.querySelector("[data-said]")?.textContent.trim() ?? "";
      lookAgain();
      if (!button) return;
      history.replaceState(null, "", `${address}#preview`);
      region.focus();
    } catch {
      if (turn === latest && asking.signal.aborted) now.textContent = waits.dataset.cancelled;
    } finally {
      rest(turn);
    }
  };
  const lookAgain = () => {
    const goesOn = region.querySelector("[data-again]");
    if (goesOn) typing = setTimeout(look, 1000 * Number(goesOn.dataset.again));
  };
  lookAgain();
  question.addEventListener("input", (event) => {
    // An epsilon or a margin of error that is typed is the one that is wanted.
    const { name, value } = event.target;
    const own = question.querySelector(`[name=wanted][value="${CSS.escape(name)}"]`);
    if (own && value) own.checked = true;
    clearTimeout(typing);
    typing = setTimeout(look, 500);
  });
  question.addEventListener("click", (event) => {
    const button = event.target.closest("button[value=preview]");
    if (!button || button.dataset.plain) return;
    event.preventDefault();
    look(button);
  });
  waits.querySelector("[data-cancels]").addEventListener("click", () => {
    asking.abort();
    question.querySelector("button[value=preview]:not([hidden])").focus();
  });
}

// A picture that is a file can be had as pixels too, twice as many as it has on a screen.
async function png(link) {
  const picture = new Image();
  picture.src = link.href;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * picture.width, 2 * picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  const made = document.createElement("a");
  canvas.toBlob((pixels) => {
    made.href = URL.createObjectURL(pixels);
    made.download = `${link.download.replace(/\.svg$/, "") || "chart"}.png`;
    made.click();
    setTimeout(() => URL.revokeObjectURL(made.href), 60000);
  });
}
function offer(link, name, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = name;
  button.addEventListener("click", () => act(button));
  link.after(" ", button);
}
for (const link of document.querySelectorAll("a[data-png]")) {
  offer(link, link.dataset.png, () => png(link));
}
// A table that is a file can be copied too, where a browser may write to the clipboard.
for (const link of navigator.clipboard ? document.querySelectorAll("a[data-copy]") : []) {
  const { copy: name, copied, notCopied } = link.dataset;
  offer(link, name, async (button) => {
    const answer = await fetch(link.href);
    if (answer.ok) await navigator.clipboard.writeText(await answer.text());
    button.textContent = answer.ok ? copied : notCopied;
    setTimeout(() => (button.textContent = name), 2000);
  });
}

// A page of what is unfinished looks again when there may be news.
for (const waiting of document.querySelectorAll("[data-poll]")) {
  setTimeout(() => location.reload(), 1000 * Number(waiting.dataset.poll));
  const passes = waiting.querySelector("progress");
  if (passes) setInterval(() => (passes.value += 1), 1000);
}

// A part of a page that is unfinished is looked at again, until it is finished.
function follow(part) {
  setTimeout(async () => {
    const answer = await fetch(location.href).catch(() => null);
    const read = answer?.ok && !answer.redirected ? await answer.text() : "";
    const next = new DOMParser().parseFromString(read, "text/html").getElementById(part.id);
    const far = next?.querySelector("progress")?.value;
    const shown = part.querySelector("progress");
    if (far !== undefined && shown) shown.value = far;
    else if (next) part.replaceChildren(...next.childNodes);
    if (next?.dataset.follow) follow(part);
    else delete part.dataset.follow;
  }, 1000 * Number(part.dataset.follow));
}
document.querySelectorAll("[data-follow]").forEach(follow);

// A new data set: the table is drafted from the first megabyte, and an upload shows how far it is.
const FIRST = 1 << 20;

// What a draft looks at of a file: its beginning; all of a Parquet file or an Excel workbook, which
// say at their end what is in them.
async function sampleOf(file) {
  const magic = String.fromCharCode(...new Uint8Array(await file.slice(0, 4).arrayBuffer()));
  return magic === "PAR1" || magic.startsWith("PK") ? file : file.slice(0, FIRST);
}

// Show the page that a form was answered with, and keep the file that is chosen.
function show(answer, form) {
  const next = new DOMParser().parseFromString(answer.responseText, "text/html");
  const main = next.querySelector("main");
  if (!main) return location.assign(answer.responseURL || location.href);
  const chosen = form.querySelector("input[type=file]");
  const kept = [...form.querySelectorAll("input[type=file]")];
  const empty = [...main.querySelectorAll("form[data-upload] input[type=file]")];
  document.querySelector("main").replaceWith(main);
  for (const each of empty) {
    const known = kept.find((input) => input.id === each.id);
    if (known) each.replaceWith(known);
  }
  document.title = next.title;
  completing();
  stepping();
  const stays = /\/new\/(draft|check|columns)$/.test(answer.responseURL);
  if (!stays) history.replaceState(null, "", answer.responseURL);
  const drafted = answer.responseURL.endsWith("/draft") && chosen;
  (main.querySelector("[role=alert]") || drafted || main).focus();
}

// On a narrow screen the steps of a long form are shown one at a time; what a link names is shown.
function stepTo(target) {
  const step = target?.closest(".step");
  if (!step) return;
  for (const each of document.querySelectorAll(".step")) {
    each.classList.toggle("current", each === step);
  }
  for (const link of document.querySelectorAll(".steps a")) {
    const here = step.contains(document.getElementById(link.hash.slice(1)));
    if (here) link.setAttribute("aria-current", "step");
    else link.removeAttribute("aria-current");
  }
}
function stepping() {
  const form = document.querySelector("form[data-upload]");
  if (!form?.querySelector(".step")) return;
  form.classList.add("stepped");
  const wrong = form.querySelector("[aria-invalid], .step .fault");
  stepTo(wrong ?? document.getElementById(form.dataset.at ?? "step-1"));
}
stepping();
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const target = link && document.getElementById(link.hash.slice(1));
  if (!target) return;
  stepTo(target);
  if (link.closest(".steps, .onward")) target.focus();
});

// The table of a new data set comes with the fields that are filled in or of a column's type; the
// others are added here once the column is opened, and when another type is chosen.
function complete(row) {
  const type = row.querySelector("[name$='.type']");
  row.dataset.type = type.value;
  const more = row.nextElementSibling.querySelector("details");
  const fields = more.querySelector(".readings");
  if (!more.open) return;
  for (const each of document.getElementById("readings").content.children) {
    const field = each.cloneNode(true);
    const control = field.querySelector("[name]");
    control.name = control.name.replace("columns.at.", type.name.replace(/type$/, ""));
    const isOfType = field.dataset.for?.split(" ").includes(type.value) ?? true;
    if (!isOfType || fields.querySelector(`[name="${control.name}"]`)) continue;
    control.id = field.querySelector("label").htmlFor = control.name;
    field.querySelector("b").textContent = `${row.querySelector("[name$='.name']").value} `;
    fields.append(field);
  }
}
function completing() {
  for (const each of document.querySelectorAll("table.declare [data-type]")) complete(each);
}
completing();
document.addEventListener("toggle", (event) => {
  const more = event.target.closest("table.declare .more");
  if (more) complete(more.previousElementSibling);
}, true);
document.addEventListener("change", (event) => {
  if (event.target.matches("table.declare [name$='.type']")) complete(event.target.closest("tr"));
  const more = event.target.closest("table.declare details");
  if (!more) return;
  const filled = [...more.querySelectorAll("[name]")].filter((each) => each.value.trim());
  more.querySelector("summary span").textContent = filled
    .map((each) => `${each.name.split(".").pop()} ${each.value.trim().split("\n")[0]}`)
    .filter((each) => !["trim yes", "bare_number yes"].includes(each))
    .join(" · ");
});

// Show the progress of the file that was sent with this text, until there is an answer. It is asked
// for ever less often: at most a twentieth of the time that has passed goes by unseen.
async function tellReading(reading, began, request, show) {
  const passed = () => (Date.now() - began) / 1000;
  let [far, next] = [null, 0];
  while (request.readyState !== XMLHttpRequest.DONE) {
    if (passed() >= next) {
      const answer = await fetch("/desk/readings").catch(() => null);
      const found = answer?.ok && !answer.redirected ? await answer.json() : [];
      far = found.find((each) => each.reading === reading) ?? far;
      next = passed() + Math.max(1, passed() / 20);
    }
    if (request.readyState !== XMLHttpRequest.DONE) show(far, Math.round(passed()));
    await new Promise((done) => setTimeout(done, 1000));
  }
}

async function send(form, button) {
  const chosen = form.querySelector("input[type=file]").files[0];
  const filled = new FormData(form, button);
  if (button.dataset.sends === "fields") filled.delete("file");
  if (button.dataset.sends !== "header") filled.delete("dictionary");
  if (button.dataset.sends === "header" && chosen) {
    filled.set("file", await sampleOf(chosen), chosen.name);
  }
  const progress = form.querySelector("progress");
  const words = form.querySelector("[role=status]:not(.notice)");
  const numbers = form.querySelector("[data-numbers]"); // not read out at every change
  const cancel = form.querySelector("[data-cancels]");
  const request = new XMLHttpRequest();
  request.open("POST", button.formAction);
  request.onload = () => show(request, form);
  const ended = (said) => {
    delete form.dataset.sent;
    progress.hidden = true;
    cancel.hidden = true;
    words.textContent = said;
    numbers.textContent = "";
  };
  request.onerror = () =>
    ended(words.dataset.lost);
  request.onabort = () => ended(words.dataset.cancelled);
  if (button.dataset.sends === "file") {
    const megabytes = (bytes) => Math.round(bytes / 1e6).toLocaleString("en");
    const began = Date.now();
    progress.hidden = false;
    cancel.hidden = false;
    cancel.onclick = () => request.abort();
    words.textContent = words.dataset.sent;
    request.upload.onprogress = (event) => {
      if (!event.lengthComputable) return;
      progress.value = event.loaded / event.total;
      numbers.textContent = `${megabytes(event.loaded)} of ${megabytes(event.total)} MB`;
    };
    const reading = crypto.getRandomValues(new Uint32Array(4)).join("-");
    request.setRequestHeader("Reading", reading);
    request.upload.onload = () => {
      progress.removeAttribute("value");
      words.textContent = words.dataset.read;
      tellReading(reading, began, request, (far, seconds) => {
        const bytes = far?.total_bytes
          ? `${megabytes(far.read_bytes)} of ${megabytes(far.total_bytes)} MB, `
          : "";
        if (bytes) progress.value = far.read_bytes / far.total_bytes;
        numbers.textContent = far
          ? `${bytes}${far.rows.toLocaleString("en")} rows, ${seconds} s`
          : `${seconds} s`;
      });
    };
  }
  request.send(filled);
}

// What is typed into a long form is saved some seconds later, without the files: it outlives a
// session. A refusal is no news: the next change is saved again.
let saving = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-keep]");
  if (!form || event.target.type === "file") return;
  clearTimeout(saving);
  saving = setTimeout(() => {
    const filled = new FormData(form);
    filled.delete("file");
    filled.delete("dictionary");
    fetch(form.dataset.keep, { method: "POST", body: filled, redirect: "manual" }).catch(() => {});
  }, 3000);
});

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || !event.target.matches("form[data-upload]")) return;
  if (event.submitter?.dataset.sends === "download") {
    const file = event.target.querySelector("input[type=file]");
    file.disabled = true; // the fields alone are sent, and the page stays
    setTimeout(() => {
      file.disabled = false;
      delete event.target.dataset.sent;
    });
    return;
  }
  event.preventDefault();
  send(event.target, event.submitter || event.target.querySelector("[data-sends=file]"));
});

document.addEventListener("change", (event) => {
  const header = event.target.closest("form[data-upload]")?.querySelector("[data-sends=header]");
  const file = header?.form.querySelector("input[type=file]");
  if (header && event.target.type === "file" && file.files.length) {
    header.form.requestSubmit(header);
  }
});
