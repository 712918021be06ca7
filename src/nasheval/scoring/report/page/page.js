// The report: every section drawn from the data.
function start() {
  startTheme();
  startGroups();
  window.addEventListener("beforeprint", () => {
    document.querySelector(".reading").open = true;
  });
  drawAdjusted();
  drawFrontier();
  drawHeldOut();
  drawAudit();
  drawTrust();
  drawRest();
}
start();
