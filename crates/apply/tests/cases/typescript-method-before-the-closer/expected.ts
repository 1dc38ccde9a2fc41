import { Store } from "./store";

export class UserService {
  private store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  find(id: string) {
    return this.store.get(id);
  }

  remove(id: string) {
    return this.store.delete(id);
  }
}

export class RoleService {
  list() {
    return [];
  }
}
