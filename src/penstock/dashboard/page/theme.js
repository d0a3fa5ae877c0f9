// Light or dark theme: the system's, until the user chooses one.

import { say } from "./dom.js";

const KEY = "penstock-theme";

export function theme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const chosen = () => localStorage.getItem(KEY);
  const dark = () => (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
  const apply = () => {
    if (chosen()) root.dataset.theme = chosen();
    else delete root.dataset.theme;
    say(button, dark() ? "Light" : "Dark");
    button.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
  };
  button.addEventListener("click", () => {
    localStorage.setItem(KEY, dark() ? "light" : "dark");
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
