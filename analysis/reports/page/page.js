// Sorts a table by a column when its title is clicked; rows below a title of their own stay below it.
const UNITS = { min: 60, h: 3600, k: 1e3, M: 1e6, G: 1e9 };
const number = text => {
  const found = text.replace(/,/g, "").match(/([+-]?(?:\d+\.?\d*|\.\d+))(?: ?(min|h|k|M|G)\b)?/);
  return found ? Number(found[1]) * (UNITS[found[2]] ?? 1) : NaN;
};
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button"); // which keys and screen readers know
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const sort = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[column] ? row.cells[column].textContent.trim() : "";
      const body = table.tBodies[0];
      const groups = [[]];
      for (const row of [...body.rows]) row.cells.length === 1 ? groups.push([row], []) : groups[groups.length - 1].push(row);
      const numbers = head.classList.contains("number");
      for (const group of groups) {
        if (group.length > 1) group.sort((a, b) => {
          const [x, y] = numbers ? [number(key(a)), number(key(b))] : [key(a), key(b)];
          if (numbers && (isNaN(x) || isNaN(y))) return isNaN(x) - isNaN(y);
          const order = numbers ? x - y : x.localeCompare(y);
          return down ? -order : order;
        });
        body.append(...group);
      }
    };
    button.addEventListener("click", sort);
  });
}
