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

// A choice that changes the form loads it anew.
for (const form of document.querySelectorAll("form[data-reload]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

// The preview follows the form, half a second behind.
const question = document.querySelector("form[data-preview]");
if (question) {
  const region = document.getElementById("preview");
  let timer = 0;
  let latest = 0;
  const look = async () => {
    const turn = ++latest;
    const filled = new URLSearchParams(new FormData(question));
    if (!filled.get("epsilon") && !filled.get("accuracy")) return;
    filled.set("act", "preview");
    filled.set("part", "preview");
    region.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${question.dataset.preview}?${filled}`);
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
