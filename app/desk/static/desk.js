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
