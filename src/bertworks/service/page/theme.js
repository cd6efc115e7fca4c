// Before anything is drawn: the theme that was chosen here before.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("bertworks.theme");
  } catch {
    // Storage may be forbidden; the system's theme is used then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
