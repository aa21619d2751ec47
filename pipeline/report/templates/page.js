"use strict";
(() => {
  for (const button of document.querySelectorAll("button.reveal")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const shown = button.parentElement.classList.toggle("shown");
      button.setAttribute("aria-pressed", String(shown));
      button.textContent = shown ? "Blur it again" : "Show the picture";
    });
  }

  const form = document.getElementById("filter");
  if (!form) return;
  const plain = (text) => text.normalize("NFC").toLowerCase();
  const cards = Array.from(document.querySelectorAll(".card"), (card) => {
    const parts = Array.from(card.querySelectorAll(".caption, .url"), (part) => part.textContent);
    return { card, text: plain(parts.join(" ")), uid: card.querySelector(".uid").textContent };
  });
  // So many digits of a uid that no other word is taken for one.
  const has = ({ text, uid }, word) => text.includes(word) || (word.length >= 8 && uid.includes(word));
  const values = (card, by) => card.dataset[by].split(" · ").filter(Boolean);
  const selects = Array.from(form.querySelectorAll("select"));
  const find = form.querySelector("input");
  const count = document.getElementById("count");

  for (const select of selects) {
    const numbers = new Map();
    for (const { card } of cards) {
      for (const value of values(card, select.dataset.by)) numbers.set(value, (numbers.get(value) || 0) + 1);
    }
    for (const [value, number] of Array.from(numbers).sort()) {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = `${value} (${number})`;
      select.append(option);
    }
    select.parentElement.hidden = numbers.size < 2;
  }

  const apply = () => {
    const words = plain(find.value).split(/\s+/).filter(Boolean);
    const wanted = selects.filter((select) => select.value).map((select) => [select.dataset.by, select.value]);
    let number = 0;
    for (const entry of cards) {
      const { card } = entry;
      const good = words.every((word) => has(entry, word)) && wanted.every(([by, value]) => values(card, by).includes(value));
      card.hidden = !good;
      number += good;
    }
    for (const list of document.querySelectorAll("ul.cards")) {
      list.nextElementSibling.hidden = Boolean(list.querySelector(".card:not([hidden])"));
    }
    count.textContent = `${number} of ${cards.length} samples`;
  };

  let waiting = 0;
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 80);
  });
  for (const select of selects) select.addEventListener("change", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
  form.hidden = false;
  apply();
})();
