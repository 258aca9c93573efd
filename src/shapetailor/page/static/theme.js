/* Before anything is painted: the person's choice of light or dark, else the system's. Not a module, so that it runs first. */
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
