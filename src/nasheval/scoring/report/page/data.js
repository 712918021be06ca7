"use strict";
const D = JSON.parse(document.getElementById("data").textContent); // what the report shows
