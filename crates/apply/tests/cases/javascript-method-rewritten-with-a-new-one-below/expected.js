class Queue {
  constructor(limit) {
    this.items = [];
    this.limit = limit;
  }

  push(item) {
    if (this.items.length >= this.limit) {
      return false;
    }
    this.items.push(item);
    return true;
  }

  drain(visit) {
    for (const item of this.items.splice(0)) {
      visit(item);
    }
  }

  get size() {
    return this.items.length;
  }
}

class Stack {
  constructor() {
    this.items = [];
  }

  pop() {
    return this.items.pop();
  }
}
