// Keeps the rows of a board in order as they come, change and go, without sorting them all for one of them.
import { ORDERS, STATUSES } from "./filters.js";

export const keyOf = (row) => `${row.agent}\n${row.check}`;
export const namesOf = (key) => key.split("\n");

// Makes a row of the values of an answer or of a frame of the stream.
export function rowOf(values, fields) {
  const row = {};
  for (let index = 0; index < fields.length; index++) row[fields[index]] = values[index];
  row.check = row.check_id;
  row.status = STATUSES[row.status];
  row.key = keyOf(row);
  return row;
}

export class Rows {
  constructor(sort) {
    this.compare = ORDERS[sort];
    this.byKey = new Map();
    this.order = [];       // keys, as they are shown
    this.isSorted = true;  // false: rows have changed, and the order was held
    this.fresh = new Set();  // rows that are not in the order yet
  }

  get size() { return this.byKey.size; }
  get(key) { return this.byKey.get(key); }

  // Takes other rows in the place of all that were there, in any order.
  replace(rows) {
    this.byKey = new Map(rows.map((row) => [row.key, row]));
    this.sort();
  }

  sort() {
    this.order = [...this.byKey.values()].sort(this.compare).map((row) => row.key);
    this.isSorted = true;
    this.fresh.clear();
  }

  // Puts a row in the place of what it was; with isHeld the order stays. Returns true if it stands elsewhere now.
  set(row, isHeld) {
    const before = this.byKey.get(row.key);
    const isMoved = !before || this.compare(before, row) !== 0;
    if (isMoved && this.isSorted && !isHeld) {
      if (before) this.order.splice(this.place(before), 1);
      this.order.splice(this.place(row), 0, row.key);
    } else if (isMoved) {
      this.isSorted = false;
      if (!before) this.fresh.add(row.key);
    }
    this.byKey.set(row.key, row);
    return isMoved;
  }

  // Takes a row away; with isHeld its place stays, empty. Returns true if it was there.
  delete(key, isHeld) {
    const before = this.byKey.get(key);
    if (!before) return false;
    if (this.isSorted && !isHeld) this.order.splice(this.place(before), 1);
    else this.isSorted = false;
    this.fresh.delete(key);
    return this.byKey.delete(key);
  }

  // The place of a row that is in the order, or is to come into it: names make each place the row's own.
  place(row) {
    let [low, high] = [0, this.order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(this.byKey.get(this.order[middle]), row) < 0) low = middle + 1; else high = middle;
    }
    return low;
  }
}
