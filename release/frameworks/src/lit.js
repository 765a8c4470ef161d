import { LitElement, html } from 'lit';
import { link, load } from './data.js';

class ItemList extends LitElement {
  static properties = { data: { state: true } };
  constructor() {
    super();
    load().then((data) => (this.data = data));
  }
  render() {
    if (!this.data) return html`<p>Loading</p>`;
    return html`<h1>${this.data.name}</h1>${this.data.items.map((item) => html`<a href=${link(item)}>${item.name}</a>`)}`;
  }
}
customElements.define('item-list', ItemList);
document.getElementById('app').append(document.createElement('item-list'));
