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

// A choice that changes the form reloads it, and keeps the focus.
for (const form of document.querySelectorAll("form[data-reload]")) {
  form.addEventListener("change", (event) => {
    sessionStorage.setItem("chosen", event.target.id);
    form.requestSubmit();
  });
}
document.getElementById(sessionStorage.getItem("chosen"))?.focus();
sessionStorage.removeItem("chosen");

// The preview follows the form, half a second behind.
const question = document.querySelector("form[data-preview]");
if (question) {
  const region = document.getElementById("preview");
  let timer = 0;
  let latest = 0;
  let asking = new AbortController();
  const look = async () => {
    const turn = ++latest;
    asking.abort(); // the service cancels a request without a client
    asking = new AbortController();
    const filled = new URLSearchParams(new FormData(question));
    if (!filled.get("epsilon") && !filled.get("accuracy")) return;
    filled.set("act", "preview");
    filled.set("part", "preview");
    region.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${question.dataset.preview}?${filled}`, {
        signal: asking.signal,
      });
      if (turn === latest && !answer.redirected) region.innerHTML = await answer.text();
    } catch {
      // the button still works
    } finally {
      if (turn === latest) region.removeAttribute("aria-busy");
    }
  };
  question.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, 500);
  });
}

// A page of what is unfinished looks again when there may be news.
for (const waiting of document.querySelectorAll("[data-poll]")) {
  setTimeout(() => location.reload(), 1000 * Number(waiting.dataset.poll));
}

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
  const stays = answer.responseURL.endsWith("/draft") || answer.responseURL.endsWith("/check");
  if (!stays) history.replaceState(null, "", answer.responseURL);
  const drafted = answer.responseURL.endsWith("/draft") && chosen;
  (main.querySelector("[role=alert]") || drafted || main).focus();
}

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
  const filled = new FormData(form);
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
    ended("The service cannot be reached. Nothing is lost here: try again.");
  request.onabort = () => ended("Cancelled. Nothing of the file is kept.");
  if (button.dataset.sends === "file") {
    const megabytes = (bytes) => Math.round(bytes / 1e6).toLocaleString("en");
    const began = Date.now();
    progress.hidden = false;
    cancel.hidden = false;
    cancel.onclick = () => request.abort();
    words.textContent = "The file is sent.";
    request.upload.onprogress = (event) => {
      if (!event.lengthComputable) return;
      progress.value = event.loaded / event.total;
      numbers.textContent = `${megabytes(event.loaded)} of ${megabytes(event.total)} MB`;
    };
    const reading = crypto.getRandomValues(new Uint32Array(4)).join("-");
    request.setRequestHeader("Reading", reading);
    request.upload.onload = () => {
      progress.removeAttribute("value");
      words.textContent = "The rows are read.";
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

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || !event.target.matches("form[data-upload]")) return;
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
