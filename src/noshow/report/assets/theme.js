"use strict";
// Runs before anything is painted. The reader's choice holds for this page; the system's is followed until there is one.
{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  let chosen = null;
  const apply = (theme) => {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = theme === "dark" ? "Light colours" : "Dark colours";
    dispatchEvent(new Event("theme"));
  };
  const wanted = () => chosen ?? (system.matches ? "dark" : "light");
  apply(wanted());
  system.addEventListener("change", () => apply(wanted()));
  addEventListener("beforeprint", () => apply("light"));
  addEventListener("afterprint", () => apply(wanted()));
  addEventListener("DOMContentLoaded", () => {
    apply(wanted());
    document.getElementById("theme").addEventListener("click", () => {
      chosen = wanted() === "dark" ? "light" : "dark";
      apply(chosen);
    });
  });
}
