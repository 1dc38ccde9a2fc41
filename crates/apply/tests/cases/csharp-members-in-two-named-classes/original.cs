namespace Acme
{
    public class Cart
    {
        public void Add(Item item)
        {
            items.Add(item);
        }
    }

    public class Order
    {
        public void Send()
        {
            sent = true;
        }
    }
}
