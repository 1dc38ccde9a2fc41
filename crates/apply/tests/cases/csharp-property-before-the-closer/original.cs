namespace Shop;

/// <summary>
/// How an order is sent again.
/// </summary>
public class RetryOptions
{
    /// <summary>
    /// Gets or sets the <see cref="RetryPredicate"/> instance used to decide if it is sent again.
    /// </summary>
    [Required]
    public RetryPredicate ShouldRetry { get; set; } = new();
}
