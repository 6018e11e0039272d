// Sends the key behind the # of this address, and takes it out of the browser's history before anything else.
const key = location.hash.slice(1);
const form = document.getElementById("login");
if (key) {
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.key.value = key;
  form.requestSubmit();
}
