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
    while (this.items.length > 0) {
      visit(this.items.shift());
    }
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
